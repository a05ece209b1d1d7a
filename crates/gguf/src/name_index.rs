//! Lookup of items by name beside a list in file order.

/// Positions in a list, sorted by the name of the item there.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameIndex(Vec<usize>);

impl NameIndex {
    /// Indexes `items`; the error is the position of a name's second occurrence.
    pub(crate) fn new<T>(items: &[T], name: impl Fn(&T) -> &str) -> Result<Self, usize> {
        let mut order: Vec<usize> = (0..items.len()).collect();
        order.sort_by(|&a, &b| name(&items[a]).cmp(name(&items[b])));
        match order
            .windows(2)
            .find(|pair| name(&items[pair[0]]) == name(&items[pair[1]]))
        {
            Some(pair) => Err(pair[1]),
            None => Ok(NameIndex(order)),
        }
    }

    /// The item named `wanted` in the list that was indexed.
    pub(crate) fn find<'a, T>(
        &self,
        items: &'a [T],
        name: impl Fn(&T) -> &str,
        wanted: &str,
    ) -> Option<&'a T> {
        let at = self
            .0
            .binary_search_by(|&i| name(&items[i]).cmp(wanted))
            .ok()?;
        items.get(self.0[at])
    }
}
