// Renders a record of a feature by the schema of the reply: a field of the schema takes the value of the same name in camel
// case. Only fields of the schema are sent.
import type { Static, TObject } from "typebox";

type CamelCase<Name> = Name extends `${infer Head}_${infer Rest}` ? `${Head}${Capitalize<CamelCase<Rest>>}` : Name;

/** The record that renders as `Wire`. A nullable field may be missing. */
export type Domain<Wire> = Wire extends readonly (infer One)[]
  ? readonly Domain<One>[]
  : Wire extends object
    ? {
        readonly [Name in keyof Wire as null extends Wire[Name] ? never : CamelCase<Name>]: Domain<Wire[Name]>;
      } & {
        readonly [Name in keyof Wire as null extends Wire[Name] ? CamelCase<Name> : never]?:
          | Domain<Wire[Name]>
          | undefined;
      }
    : Wire;

interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly items?: Shape;
  readonly anyOf?: readonly Shape[];
}

/** `given`: fields that the record does not hold under that name and in that form. */
export function wireRecord<Schema extends TObject, Given extends Partial<Static<Schema>>>(
  schema: Schema,
  record: Domain<Omit<Static<Schema>, keyof Given>>,
  given: Given,
): Static<Schema> {
  const rendered = { ...(rendering(schema as Shape, record) as object), ...given };
  return rendered as Static<Schema>;
}

function rendering({ properties, items, anyOf }: Shape, value: unknown): unknown {
  if (value === undefined || value === null) return null;
  if (Array.isArray(value)) return items ? value.map((one) => rendering(items, one)) : value;
  const fields = properties ?? anyOf?.find((one) => one.properties)?.properties;
  if (!fields) return value;
  const record = value as Readonly<Record<string, unknown>>;
  return Object.fromEntries(
    Object.entries(fields).map(([name, shape]) => [name, rendering(shape, record[camelCase(name)])]),
  );
}

/** The fields of a body that are given, in camel case; null is not given. */
export function givenFields<Change>(body: object): Change {
  const given = Object.entries(body).filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(given.map(([name, value]) => [camelCase(name), value])) as Change;
}

const camelCase = (name: string): string => name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
