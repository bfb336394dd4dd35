/** Computes once per object; the result is kept while the object lives. */
export function oncePer<Key extends object, Value>(compute: (key: Key) => Value): (key: Key) => Value {
  const known = new WeakMap<Key, { readonly value: Value }>();
  return (key) => {
    let found = known.get(key);
    if (!found) {
      found = { value: compute(key) };
      known.set(key, found);
    }
    return found.value;
  };
}
