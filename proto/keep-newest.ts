/** Sets a key as the newest of the map, and drops the oldest one above `max` entries. Returns the value. */
export function keepNewest<Key, Value>(map: Map<Key, Value>, key: Key, value: Value, max: number): Value {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > max && oldest !== undefined) map.delete(oldest);
  return value;
}
