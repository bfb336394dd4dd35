/** Ends a switch over a union: a case nobody handled does not compile. */
export function unreachable(value: never): never {
  throw new Error(`unreachable value: ${JSON.stringify(value)}`);
}
