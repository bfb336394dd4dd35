import { Type } from "typebox";

type Properties = Readonly<Record<string, unknown>>;

/**
 * An object whose `tag` says which of the `kinds` it is. Validated by the tag alone, not by trying each kind, so that an
 * error speaks of the kind that was meant. A kind's own properties are required, those of `optional` allowed in each.
 */
export function tagged(tag: string, kinds: Readonly<Record<string, Properties>>, optional: Properties = {}) {
  return Type.Unsafe<Record<string, unknown>>({
    type: "object",
    required: [tag],
    discriminator: { propertyName: tag },
    oneOf: Object.entries(kinds).map(([kind, properties]) => ({
      type: "object",
      properties: { [tag]: { const: kind }, ...optional, ...properties },
      required: [tag, ...Object.keys(properties)],
    })),
  });
}
