// Data goes to stdout, progress to stderr.

import type { Command } from "commander";
import { csv } from "../proto/csv.ts";
import { type Api, openApi } from "./api.ts";
import { type Connection, findConnection } from "./connection.ts";
import { chosenFormat, type OutputFormat, recordText } from "./output-format.ts";
import { printable } from "./printable.ts";
import { table } from "./table.ts";
import { widthOf, wrap } from "./wrap.ts";

export interface Terminal {
  readonly connection: Connection;
  readonly api: Api;
  /** Prints a record: in the format of --output, otherwise text. */
  show<Value>(value: Value, text: (value: Value) => string): void;
  rows<Value>(values: readonly Value[], columns: Columns<Value>, options?: RowOptions<Value>): void;
  /** Prints records as CSV. */
  csv<Value>(values: readonly Value[], columns: Columns<Value>): void;
  write(text: string): void;
  /** Prints a line on stderr: text, or a JSON object if records are JSON or YAML. */
  progress(line: string): void;
  /** Clears the screen and moves the cursor to its top. */
  clear(): void;
  /** Records are printed as JSON or YAML, so whole. */
  readonly isStructured: boolean;
}

interface RowOptions<Value> {
  /** Text of an empty list. */
  readonly empty?: string;
  /** Further columns with --output wide. */
  readonly wide?: Columns<Value>;
}

type Printed<Value> = { [Name in keyof Value]-?: Value[Name] extends string | number ? Name : never }[keyof Value];
/** By title, a field of the record or its text. */
export type Columns<Value> = Readonly<Record<string, Printed<Value> | ((value: Value) => string)>>;

/** `2026-01-31T12:00:00Z`, from Unix seconds or ISO 8601. */
export const utcTime = (at: number | string): string =>
  `${new Date(typeof at === "number" ? at * 1000 : at).toISOString().slice(0, 19)}Z`;

/** `2026-01-31T12:00Z` */
export const utcMinute = (at: number | string): string => `${utcTime(at).slice(0, 16)}Z`;

export const isoTime = (unixSeconds: number): string => new Date(unixSeconds * 1000).toISOString();

interface GlobalFlags {
  readonly json?: boolean;
  readonly host?: string;
  readonly profile?: string;
}

/** Creates the terminal of a command from the global flags. `output`: value of --output. `isNewProfile`: --profile may be a new one. */
export function openTerminal(command: Command, output?: OutputFormat, isNewProfile = false): Terminal {
  const { json = false, host, profile } = command.optsWithGlobals<GlobalFlags>();
  const format = chosenFormat(output, json);
  const isStructured = format === "json" || format === "yaml";
  // Found when it is used: commands without a server also work with an invalid STOKER_HOST.
  let found: Connection | undefined;
  const connection = (): Connection => {
    found ??= findConnection({ host, profile, isNewProfile }, process.env, process.cwd());
    return found;
  };
  let api: Api | undefined;
  const write = (text: string): void => void process.stdout.write(printable(text));
  const maxWidth = format === "wide" ? Number.POSITIVE_INFINITY : widthOf(process.stdout);
  return {
    get connection() {
      return connection();
    },
    get api() {
      api ??= openApi(connection());
      return api;
    },
    isStructured,
    write,
    clear: () => void process.stdout.write("\u001B[2J\u001B[H"),
    show: (value, text) => write(isStructured ? recordText(value, format) : `${wrap(text(value), maxWidth)}\n`),
    rows(values, columns, { empty = "None.", wide } = {}) {
      if (isStructured) return write(recordText(values, format));
      const shown = format === "wide" ? { ...columns, ...wide } : columns;
      const rows =
        values.length === 0 ? wrap(empty, maxWidth) : table(Object.keys(shown), cellsOf(values, shown), maxWidth);
      write(`${rows}\n`);
    },
    csv: (values, columns) => write(`${csv(Object.keys(columns), cellsOf(values, columns))}\r\n`),
    progress(line) {
      const text = isStructured ? JSON.stringify({ progress: line }) : wrap(line, widthOf(process.stderr));
      process.stderr.write(printable(`${text}\n`));
    },
  };
}

const cellsOf = <Value>(values: readonly Value[], columns: Columns<Value>): readonly string[][] =>
  values.map((value) =>
    Object.values(columns).map((cell) => (typeof cell === "function" ? cell(value) : String(value[cell]))),
  );
