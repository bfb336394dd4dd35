/** Throws when the key could name anything outside of the store. */
export function checkKey(key: string): string {
  if (!/^[\w-][\w.-]*(\/[\w-][\w.-]*)*$/.test(key)) throw new Error(`invalid blob key: ${key.slice(0, 80)}`);
  return key;
}
