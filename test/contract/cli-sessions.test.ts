// What users see on a terminal of 80 columns, command by command. STOKER_RECORD_SESSIONS=1 rewrites the files; read the difference.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import type { Command } from "commander";
import stringWidth from "string-width";
import { afterAll, expect, inject, it } from "vitest";
import { pathOf } from "../../cli/command.ts";
import { createProgram } from "../../cli/program.ts";
import { figures } from "../fakes/agent-data-plane.ts";
import { startEdge } from "../fakes/edge.ts";
import { adminKey, apiKey } from "../fakes/ports.ts";
import { columns, readSession, runStep, type Step, sessionFiles, stepText } from "./cli-sessions.ts";

const isRecording = process.env["STOKER_RECORD_SESSIONS"] === "1";
const folder = mkdtempSync(join(tmpdir(), "stoker-sessions-"));
const request = {
  custom_id: "a",
  method: "POST",
  url: "/v1/chat/completions",
  body: { model: "org/model", messages: [] },
};
writeFileSync(join(folder, "requests.jsonl"), `${JSON.stringify(request)}\n`);
writeFileSync(join(folder, "short.txt"), "short\n");
const turns = [1, 2, 3, 4].map((n) => ({
  timestamp: 1_000 * n,
  input_length: 900,
  output_length: 90,
  conversation: `c${n % 2}`,
}));
writeFileSync(join(folder, "trace.jsonl"), turns.map((turn) => `${JSON.stringify(turn)}\n`).join(""));
writeFileSync(join(folder, "speech.wav"), Buffer.concat([Buffer.from("RIFF____WAVEfmt "), Buffer.alloc(64)]));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Server {
  readonly url: string;
  readonly keys: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

const stranger = "stk_not_a_key_of_anybody";

const chunk = (delta: object, finish: string | null, more: object = {}) =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "org/model", choices: [{ index: 0, delta, finish_reason: finish }], ...more })}\n\n`;
const usage = { prompt_tokens: 6, completion_tokens: 3, total_tokens: 9, estimated_cost: 0.00000022 };

async function startFake(): Promise<Server> {
  const edge = await startEdge();
  // Approved at once; the page where a person does it: login-pages.test.ts.
  edge.deps.cliLogins.wait = () => Promise.resolve(apiKey);
  edge.agent.script(
    {
      kind: "stream",
      frames: [chunk({ role: "assistant", content: "Hello, Ada." }, null), chunk({}, "stop", { usage })],
      usage: figures,
    },
    {
      kind: "whole",
      body: JSON.stringify({ choices: [{ index: 0, text: "Hello, Ada.", finish_reason: "stop" }], usage }),
    },
  );
  return { url: edge.url, keys: { customer: apiKey, operator: adminKey, stranger }, close: () => edge.close() };
}

/** A new account of the installation that the contract tests share. */
async function newAccount(): Promise<Server> {
  const { url, operatorKey } = inject("installation");
  const name = `session-${process.hrtime.bigint().toString(36)}`;
  const created = await fetch(`${url}/v1/admin/accounts`, {
    method: "POST",
    headers: { authorization: `Bearer ${operatorKey}`, "content-type": "application/json" },
    body: JSON.stringify({ email: `${name}@example.com`, display_name: name, credit_usd: 10 }),
  });
  const { api_key: key } = (await created.json()) as { api_key: string };
  return { url, keys: { customer: key, operator: operatorKey, stranger }, close: async () => {} };
}

/** Replaces what differs between runs by text of the same form. */
const stable = (text: string, { url }: Server): string =>
  text
    .replaceAll(url, "http://stoker.example")
    .replaceAll(/(?<=login\?cli=)[\w-]{32}/g, "L".repeat(32))
    .replaceAll(/(?<=the code )[\w-]{9}(?=\.)/g, "LLLL-LLLL")
    .replaceAll(folder, "/home/ada")
    .replaceAll(/\b20\d\d-\d\d-\d\d(?=[T ]|\b)/g, "2026-01-02")
    .replaceAll(
      /(?<=2026-01-02[T ])\d\d:\d\d(:\d\d)?(\.\d+)?/g,
      (_, seconds, ms) => `03:04${seconds ? ":05" : ""}${ms ? ".678" : ""}`,
    )
    .replaceAll(/(?<=\(request\s+id\s+|"request_id": ?")[\w-]+/g, "REQUEST")
    .replaceAll(/\b\d+(\.\d+)?(?= tokens\/s)/g, "9.9")
    .replaceAll(/(?<="runtime_ms": )\d+/g, "9")
    .replaceAll(/\bfile_\w{24}\b/g, "file_000000000000000000000000")
    .replaceAll(/^\w{16}(?= +auto )/gm, "KeyOfNewAccount0");

/** The last use of a key is stored every 30 s, so a new account's list may have it or not. */
const unused = (text: string): string =>
  text
    .replaceAll("LAST USED   EXPIRES", "LAST USED  EXPIRES")
    .replaceAll(/(?<=auto {2}admin {2})2026-01-02 {2}(?=never)/g, "never      ");

const isWide = ({ command }: Step): boolean => /-o (wide|yaml|json)|--json/.test(command);
/** A key, a URL or a token is longer than a line on any terminal. */
const isOneWord = (line: string): boolean => !line.trim().includes(" ");

it.each(sessionFiles().map((file) => [basename(file, ".txt"), file] as const))(
  "shows the session %s as recorded, in 80 columns",
  async (_name, file) => {
    const steps = readSession(file);
    const isNew = steps[0]?.before.includes("# server: installation");
    const server = isNew ? await newAccount() : await startFake();
    const shown: string[] = [];
    try {
      for (const step of steps) {
        const env = { STOKER_HOST: server.url, STOKER_API_KEY: server.keys[step.role] ?? "" };
        const lines = await runStep(step, env, folder);
        const tooLong = lines.filter((line) => stringWidth(line) > columns && !isWide(step) && !isOneWord(line));
        if (!isRecording) expect(tooLong, step.command).toEqual([]);
        const text = stable(lines.join("\n"), server);
        shown.push(stepText(step, isNew ? unused(text) : text));
      }
    } finally {
      await server.close();
    }
    const recorded = shown.join("\n");
    if (isRecording) writeFileSync(file, recorded);
    else expect(recorded).toBe(readFileSync(file, "utf8"));
  },
  120_000,
);

/** Commands without their own session: they start programs, ask on a terminal, or work on the host of the control plane. */
const unrecorded = new Set([
  "stoker up",
  "stoker doctor",
  "stoker node join",
  "stoker admin key",
  "stoker admin rotate-kek",
  "stoker admin rotate-invoice-key",
  "stoker admin backup create",
  "stoker admin backup restore",
]);

const endsOf = (command: Command): readonly Command[] => {
  if (command.commands.length === 0) return [command];
  const visible = command.createHelp().visibleCommands(command);
  return visible.filter((one) => one.name() !== "help").flatMap(endsOf);
};

it("has every command in a session", () => {
  const recorded = sessionFiles().flatMap((file) => readSession(file).map(({ command }) => `${command} `));
  const missing = endsOf(createProgram("0.0.0"))
    .map(pathOf)
    .filter((path) => !unrecorded.has(path) && !recorded.some((command) => command.startsWith(`${path} `)));
  expect(missing).toEqual(["stoker version info"]);
});
