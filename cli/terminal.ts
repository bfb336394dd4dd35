// Data on stdout, progress on stderr, so that a pipe gets what a person would copy.

import type { Command } from "commander";
import { type Api, openApi } from "./api.ts";
import { type Connection, findConnection } from "./connection.ts";
import { csv, table } from "./table.ts";

export interface Terminal {
  readonly connection: Connection;
  readonly api: Api;
  /** A record: JSON with --json, else the text made from it. */
  show<Value>(value: Value, text: (value: Value) => string): void;
  rows<Value>(values: readonly Value[], head: readonly string[], row: (value: Value) => readonly string[]): void;
  /** The same as CSV. */
  csv<Value>(values: readonly Value[], head: readonly string[], row: (value: Value) => readonly string[]): void;
  write(text: string): void;
  progress(line: string): void;
  readonly json: boolean;
}

/** Made per command from the flags that every command takes. */
export function openTerminal(command: Command): Terminal {
  const { json = false, host } = command.optsWithGlobals<{ json?: boolean; host?: string }>();
  const connection = findConnection(host, process.env, process.cwd());
  const write = (text: string): void => void process.stdout.write(text);
  // Nothing is cut where a program reads, or a terminal does not say how wide it is.
  const room = process.stdout.columns || Number.POSITIVE_INFINITY;
  const print = (value: unknown): void => write(`${JSON.stringify(value, undefined, 2)}\n`);
  return {
    connection,
    api: openApi(connection),
    json,
    write,
    show: (value, text) => (json ? print(value) : write(`${text(value)}\n`)),
    rows(values, head, row) {
      if (json) print(values);
      else write(`${values.length === 0 ? "None." : table(head, values.map(row), room)}\n`);
    },
    csv: (values, head, row) => write(`${csv(head, values.map(row))}\r\n`),
    progress: (line) => void process.stderr.write(`${line}\n`),
  };
}
