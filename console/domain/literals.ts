// Values as text of a programming language, for code snippets.

const lineLength = 88;

/** A JSON string is also valid in Python and TypeScript. */
export const quoted = (text: string): string => JSON.stringify(text);

export const inShell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

interface Style {
  readonly name: (key: string) => string;
  readonly constants: { readonly true: string; readonly false: string; readonly null: string };
}

const python: Style = { name: quoted, constants: { true: "True", false: "False", null: "None" } };
const typescript: Style = {
  name: (key) => (/^[A-Za-z_$][\w$]*$/.test(key) ? key : quoted(key)),
  constants: { true: "true", false: "false", null: "null" },
};

/** `indent`: spaces before the line on which the value begins. */
export const inPython = (value: unknown, indent = 0): string => literal(python, value, indent);
export const inTypeScript = (value: unknown, indent = 0): string => literal(typescript, value, indent);

function literal(style: Style, value: unknown, indent: number): string {
  const step = style === python ? 4 : 2;
  if (value === null || value === undefined) return style.constants.null;
  if (typeof value === "boolean") return style.constants[`${value}`];
  if (typeof value !== "object") return JSON.stringify(value);
  const isList = Array.isArray(value);
  const parts = (at: number): readonly string[] =>
    isList
      ? value.map((one: unknown) => literal(style, one, at))
      : Object.entries(value)
          .filter(([, one]) => one !== undefined)
          .map(([key, one]) => `${style.name(key)}: ${literal(style, one, at)}`);
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  const space = isList || style === python ? "" : " ";
  const flat = parts(indent);
  if (flat.length === 0) return `${open}${close}`;
  const line = `${open}${space}${flat.join(", ")}${space}${close}`;
  if (!line.includes("\n") && indent + line.length <= lineLength) return line;
  const pad = " ".repeat(indent + step);
  return [open, ...parts(indent + step).map((one) => `${pad}${one},`), `${" ".repeat(indent)}${close}`].join("\n");
}
