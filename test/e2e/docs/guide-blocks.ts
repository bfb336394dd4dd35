// Code blocks of the guides, and how each is run: shell, Python and TypeScript in the order of the page, in one folder, with one environment.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import { python } from "../../fakes/python.ts";

const root = join(import.meta.dirname, "../../..");

export interface Block {
  readonly language: "bash" | "python" | "typescript";
  readonly code: string;
  readonly line: number;
  /** From `skip="..."` after the language: why it cannot run here. */
  readonly skip: string | undefined;
}

/** Throws Error for a block without a language that can be run. */
export function blocksOf(markdown: string): readonly Block[] {
  return [...markdown.matchAll(/^```(.*)\n([\s\S]*?)^```$/gm)].map(({ 1: info = "", 2: code = "", index }) => {
    const line = markdown.slice(0, index).split("\n").length;
    const [, language, , skip] = /^(bash|python|typescript)( skip="([^"]+)")?$/.exec(info) ?? [];
    if (language === undefined)
      throw new Error(`line ${line}: a block of a guide is bash, python or typescript, perhaps with skip="reason".`);
    return { language: language as Block["language"], code, line, skip };
  });
}

export interface Ran {
  readonly code: number | null;
  readonly out: string;
}

export interface GuideShell {
  run(block: Block): Promise<Ran>;
}

/** Starts a shell's life: variables that a block exports, and files that it writes, are there for the next. */
export function openGuideShell(parent: string, env: Readonly<Record<string, string>>): GuideShell {
  const folder = mkdtempSync(join(parent, "guide-"));
  const variables = join(folder, ".variables");
  writeFileSync(variables, "");
  // Every curl of a guide fails where the server refuses, and prints why.
  writeFileSync(join(folder, ".curlrc"), "fail-with-body\nsilent\nshow-error\n");
  // In a clone, npx finds the command of the clone.
  writeFileSync(join(folder, "npx"), '#!/bin/sh\nexec "$@"\n', { mode: 0o755 });
  const environment = {
    ...process.env,
    ...env,
    CURL_HOME: folder,
    HOME: folder,
    PATH: [folder, join(root, "cli"), process.env["PATH"] ?? ""].join(delimiter),
  };
  const inShell = (command: string) => run("bash", ["-euo", "pipefail", "-c", command], folder, environment);
  let number = 0;
  return {
    run({ language, code }) {
      const known = `source ${variables}`;
      if (language === "bash") return inShell(`${known}\n${code}\nexport -p > ${variables}`);
      number += 1;
      if (language === "python") {
        writeFileSync(join(folder, `${number}.py`), code);
        return inShell(`${known}\n${python} ${number}.py`);
      }
      // Beside the packages that it imports.
      const file = join(parent, `${number}.ts`);
      writeFileSync(file, code);
      return inShell(`${known}\n${process.execPath} ${file}`);
    },
  };
}

async function run(program: string, args: readonly string[], cwd: string, env: NodeJS.ProcessEnv): Promise<Ran> {
  const child = spawn(program, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"], timeout: 300_000 });
  const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { code: await exited, out: out + err };
}

/** Writes what did not run where `scripts/test` shows it. */
export function tellSkipped(guide: string, blocks: readonly Block[]): void {
  for (const { skip, line } of blocks) if (skip) process.stderr.write(`\nNOT RUN: ${guide}:${line}: ${skip}\n`);
}

export const readGuide = (name: string) => readFileSync(join(root, name), "utf8");
