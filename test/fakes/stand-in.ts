// Dependencies that change from test to test behind one edge, because registering its hundreds of routes takes longer than a test.

/** Same shape as what `look` returns. Functions and instances are looked up at each use, plain values once. */
export function standIn<T extends object>(look: () => T): T {
  return Object.fromEntries(
    Object.entries(look()).map(([name, value]) => {
      const now = () => (look() as Record<string, unknown>)[name];
      if (isPlain(value)) return [name, standIn(now as () => object)];
      if (typeof value === "function")
        return [name, (...given: unknown[]) => Reflect.apply(now() as () => unknown, look(), given)];
      return [name, typeof value === "object" && value !== null ? forwarder(now as () => object) : value];
    }),
  ) as T;
}

/** Stands for an instance of a class, whose members are not its own. */
const forwarder = (look: () => object) =>
  new Proxy(look(), {
    get: (_, name) => {
      const value = Reflect.get(look(), name);
      return typeof value === "function" ? value.bind(look()) : value;
    },
  });

const isPlain = (value: unknown) =>
  typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
