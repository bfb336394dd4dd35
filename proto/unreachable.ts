/** Ends a switch over a union: an unhandled case does not compile. */
export function unreachable(value: never): never {
  throw new Error(`unreachable value: ${JSON.stringify(value)}`);
}
