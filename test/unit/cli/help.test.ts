// Help of every command as on a terminal of 80 columns. STOKER_RECORD_SESSIONS=1 rewrites the files; read the difference.
import { globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Command, Option } from "commander";
import stringWidth from "string-width";
import { expect, it } from "vitest";
import { pathOf, type Command as StokerCommand } from "../../../cli/command.ts";
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

it("marks every option that must be given", () => {
  const marked = allBelow(program).flatMap((one) => one.options.filter(({ mandatory }) => mandatory));
  expect(marked.length).toBeGreaterThan(20);
  expect(program.createHelp().optionDescription(marked[0] as Option)).toMatch(/ \(required\)$/);
});

/** Words of a command line as a shell splits them. */
const wordsOf = (line: string): readonly string[] =>
  [...line.matchAll(/"([^"]*)"|\S+/g)].map(([word, quoted]) => quoted ?? word);

/** Replaces every action of a tree by one that notes its command. */
function noteCommands(command: Command, note: (path: string) => void): void {
  command.exitOverride().configureOutput({ writeErr: () => {} });
  command.action(() => note(pathOf(command)));
  for (const one of command.commands) noteCommands(one, note);
}

const endsOf = allBelow(program).filter((one) => one.commands.length === 0);

it("ends the help of every command with an example", () => {
  const missing = endsOf.filter((one) => (one as StokerCommand).examples.length === 0 && pathOf(one) !== "stoker log");
  // Old names, which no help lists.
  expect(missing.map(pathOf)).toEqual([
    "stoker auth factors",
    "stoker auth rename-factor",
    "stoker model publicity",
    "stoker deploy create-llm",
    "stoker container rename",
    "stoker billing invoices",
    "stoker node prefetch",
    "stoker node unfetch",
    "stoker admin discount end",
  ]);
});

it.each(
  allBelow(program).flatMap((one) => (one as StokerCommand).examples.map((example) => [example, pathOf(one)] as const)),
)("parses the example %s", async (example, path) => {
  const [, line = ""] = /(?:source <\()?stoker ([^)]*)/.exec(example) ?? [];
  const ran: string[] = [];
  const tree = createProgram("0.0.0");
  noteCommands(tree, (one) => ran.push(one));
  // The name of a model is the default command of its group.
  const expected = path === "stoker deploy" ? "stoker deploy model" : path;
  const asks = endsOf.find((one) => pathOf(one) === expected)?.options.some(({ long }) => long === "--yes");
  await tree.parseAsync([...wordsOf(line), ...(asks ? ["--yes"] : [])], { from: "user" });
  expect(ran).toEqual([expected]);
});
