// Help of every command as on a terminal of 80 columns. STOKER_RECORD_SESSIONS=1 rewrites the files; read the difference.
import { globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import stringWidth from "string-width";
import { expect, it } from "vitest";
import { pathOf } from "../../../cli/command.ts";
import { createProgram } from "../../../cli/program.ts";

const isRecording = process.env["STOKER_RECORD_SESSIONS"] === "1";
const folder = join(import.meta.dirname, "../../fixtures/cli-help");
const program = createProgram("0.0.0");

function helpOf(command: Command): string {
  let text = "";
  command.configureOutput({
    writeOut: (part) => {
      text += part;
    },
    getOutHelpWidth: () => 80,
  });
  command.outputHelp();
  return `$ ${pathOf(command)} --help\n${text}`;
}

const allBelow = (one: Command): readonly Command[] => [one, ...one.commands.flatMap(allBelow)];

/** One file for each noun, and one for the program itself. */
const files = new Map([
  ["stoker", helpOf(program)],
  ...program.commands.map((noun) => [noun.name(), allBelow(noun).map(helpOf).join("\n")] as const),
]);

it("has a file for every noun", () => {
  const names = [...files.keys()].map((name) => `${name}.txt`).toSorted();
  if (isRecording) for (const file of globSync("*.txt", { cwd: folder })) rmSync(join(folder, file));
  else expect(globSync("*.txt", { cwd: folder }).toSorted()).toEqual(names);
});

it.each([...files])("shows the help of %s as recorded, in 80 columns", (name, text) => {
  const file = join(folder, `${name}.txt`);
  if (isRecording) return writeFileSync(file, text);
  expect(text.split("\n").filter((line) => stringWidth(line) > 80)).toEqual([]);
  expect(text).toBe(readFileSync(file, "utf8"));
});
