// Data goes to stdout, progress to stderr.

import type { Command } from "commander";
import { csv } from "../proto/csv.ts";
import { type Api, openApi } from "./api.ts";
import { type Connection, findConnection } from "./connection.ts";
import { printable } from "./printable.ts";
import { table } from "./table.ts";

export interface Terminal {
  readonly connection: Connection;
  readonly api: Api;
  /** Prints a record: JSON with --json, otherwise text. */
  show<Value>(value: Value, text: (value: Value) => string): void;
  rows<Value>(values: readonly Value[], columns: Columns<Value>, empty?: string): void;
  /** Prints records as CSV. */
  csv<Value>(values: readonly Value[], columns: Columns<Value>): void;
  write(text: string): void;
  progress(line: string): void;
  /** Clears the screen and moves the cursor to its top. */
  clear(): void;
  readonly json: boolean;
}

type Printed<Value> = { [Name in keyof Value]-?: Value[Name] extends string | number ? Name : never }[keyof Value];
/** By title, a field of the record or its text. */
export type Columns<Value> = Readonly<Record<string, Printed<Value> | ((value: Value) => string)>>;

export const isoTime = (unixSeconds: number): string => new Date(unixSeconds * 1000).toISOString();

/** Creates the terminal of a command from the global flags. */
export function openTerminal(command: Command): Terminal {
  const { json = false, host } = command.optsWithGlobals<{ json?: boolean; host?: string }>();
  const connection = findConnection(host, process.env, process.cwd());
  const write = (text: string): void => void process.stdout.write(printable(text));
  // No limit for a pipe or a terminal without a known width.
  const maxWidth = process.stdout.columns || Number.POSITIVE_INFINITY;
  const print = (value: unknown): void => write(`${JSON.stringify(value, undefined, 2)}\n`);
  return {
    connection,
    api: openApi(connection),
    json,
    write,
    clear: () => void process.stdout.write("\u001B[2J\u001B[H"),
    show: (value, text) => (json ? print(value) : write(`${text(value)}\n`)),
    rows(values, columns, empty = "None.") {
      if (json) print(values);
      else write(`${values.length === 0 ? empty : table(Object.keys(columns), cellsOf(values, columns), maxWidth)}\n`);
    },
    csv: (values, columns) => write(`${csv(Object.keys(columns), cellsOf(values, columns))}\r\n`),
    progress: (line) => void process.stderr.write(printable(`${line}\n`)),
  };
}

const cellsOf = <Value>(values: readonly Value[], columns: Columns<Value>): readonly string[][] =>
  values.map((value) =>
    Object.values(columns).map((cell) => (typeof cell === "function" ? cell(value) : String(value[cell]))),
  );
