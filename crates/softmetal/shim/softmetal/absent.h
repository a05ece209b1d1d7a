// What Metal offers and this device does not: a use does not compile, and the message says why.
#pragma once

namespace metal {

#define SOFTMETAL_ABSENT(what) __attribute__((unavailable("the software device has no " what)))

enum class access { sample, read, write, read_write };
enum class coord { normalized, pixel };
enum class filter { nearest, linear };
enum class mip_filter { none, nearest, linear };
enum class address { clamp_to_zero, clamp_to_edge, repeat, mirrored_repeat, clamp_to_border };
enum class compare_func { never, less, less_equal, greater, greater_equal, equal, not_equal, always };

#define SOFTMETAL_TEXTURE(name)                                                                    \
    template <class T, access A = access::sample> class SOFTMETAL_ABSENT("textures") name;
SOFTMETAL_TEXTURE(texture1d)
SOFTMETAL_TEXTURE(texture1d_array)
SOFTMETAL_TEXTURE(texture2d)
SOFTMETAL_TEXTURE(texture2d_array)
SOFTMETAL_TEXTURE(texture2d_ms)
SOFTMETAL_TEXTURE(texture2d_ms_array)
SOFTMETAL_TEXTURE(texture3d)
SOFTMETAL_TEXTURE(texturecube)
SOFTMETAL_TEXTURE(texturecube_array)
SOFTMETAL_TEXTURE(texture_buffer)
SOFTMETAL_TEXTURE(depth2d)
SOFTMETAL_TEXTURE(depth2d_array)
SOFTMETAL_TEXTURE(depth2d_ms)
SOFTMETAL_TEXTURE(depth2d_ms_array)
SOFTMETAL_TEXTURE(depthcube)
SOFTMETAL_TEXTURE(depthcube_array)
#undef SOFTMETAL_TEXTURE

class SOFTMETAL_ABSENT("samplers") sampler {
  public:
    template <class... A> constexpr sampler(A...) {}
};
class SOFTMETAL_ABSENT("indirect command buffers") command_buffer;
class SOFTMETAL_ABSENT("indirect command buffers") compute_command;
class SOFTMETAL_ABSENT("indirect command buffers") render_command;
class SOFTMETAL_ABSENT("indirect command buffers") compute_pipeline_state;
class SOFTMETAL_ABSENT("indirect command buffers") render_pipeline_state;
template <class T, class... A> class SOFTMETAL_ABSENT("imageblocks") imageblock;
template <class T> class SOFTMETAL_ABSENT("visible functions") visible_function_table;
template <class... T> class SOFTMETAL_ABSENT("arrays of textures") array_ref;
class SOFTMETAL_ABSENT("asynchronous copies, which are private to Metal") simdgroup_event;

namespace raytracing {
class SOFTMETAL_ABSENT("ray tracing") ray;
class SOFTMETAL_ABSENT("ray tracing") primitive_acceleration_structure;
class SOFTMETAL_ABSENT("ray tracing") instance_acceleration_structure;
template <class... T> class SOFTMETAL_ABSENT("ray tracing") acceleration_structure;
template <class... T> class SOFTMETAL_ABSENT("ray tracing") intersection_function_table;
template <class... T> class SOFTMETAL_ABSENT("ray tracing") intersector;
template <class... T> class SOFTMETAL_ABSENT("ray tracing") intersection_query;
} // namespace raytracing

struct SOFTMETAL_ABSENT("log") os_log;
extern SOFTMETAL_ABSENT("log") const int os_log_default;

} // namespace metal

SOFTMETAL_ABSENT("log") int printf(const char*, ...);
typedef double softmetal_double __attribute__((unavailable("Metal has no double")));
#undef SOFTMETAL_ABSENT
