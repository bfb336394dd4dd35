import { Type } from "typebox";

type Properties = Readonly<Record<string, unknown>>;

/**
 * Schema of an object whose `tag` selects one of `kinds`. Only that kind is validated, so that an error refers to it. The
 * properties of a kind are required, those of `optional` allowed in each, those of `ownOptional` in one kind. Each copy of a large
 * schema takes time to compile at the first request: prefer `ownOptional` for it.
 */
export function tagged(
  tag: string,
  kinds: Readonly<Record<string, Properties>>,
  optional: Properties = {},
  ownOptional: Readonly<Record<string, Properties>> = {},
) {
  return Type.Unsafe<Record<string, unknown>>({
    type: "object",
    required: [tag],
    discriminator: { propertyName: tag },
    oneOf: Object.entries(kinds).map(([kind, properties]) => ({
      type: "object",
      properties: { [tag]: { const: kind }, ...optional, ...ownOptional[kind], ...properties },
      required: [tag, ...Object.keys(properties)],
    })),
  });
}
