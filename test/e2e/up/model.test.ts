// The front door: one command to a streamed answer of a real model, by the very line that `up` prints.
import { execFile } from "node:child_process";
import { cpSync, existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { isAlive } from "../../../agent/process/process-identity.ts";
import { runningModelServers } from "../../../scripts/supervisor/stack.ts";
import { freePort } from "../../fakes/free-port.ts";
import { isNightly } from "../../fakes/nightly.ts";
import { clearUp, newDataDir, root, startUp, type Up } from "./start-up.ts";

if (!isNightly) console.warn("NOT PROVEN here: a stop of the model server by Ctrl-C. npm run test:nightly does.");

const run = promisify(execFile);
const flags = ["--driver", "process"];
const model = "HuggingFaceTB/SmolLM2-135M-Instruct";
const patient = { timeout: 60_000, interval: 500 };
const dataDir = newDataDir();
let up: Up;

beforeAll(async () => {
  // The weights that scripts/test has fetched: a test asks no address outside this machine.
  const store = join(root, ".cache/models/store");
  if (existsSync(store)) cpSync(store, join(dataDir, "models"), { recursive: true });
  up = startUp(dataDir, await freePort(), flags);
  await up.ready();
});
afterAll(() => clearUp(up));

/** The curl line as printed: from `curl` to the end of its last continued line. */
const printedCall = (): string => /^ {2}(curl (?:.*\\\n)*.*)$/m.exec(up.output())?.[1] ?? "";

async function streamedText(): Promise<string> {
  const { stdout } = await run("/bin/sh", ["-c", `${printedCall()} -sS --max-time 120`], { cwd: tmpdir() });
  const data = stdout.split("\n").filter((line) => line.startsWith("data: "));
  expect(data.at(-1)).toBe("data: [DONE]");
  const pieces = data.slice(0, -1).map((line) => {
    const chunk = JSON.parse(line.slice(6)) as { choices: { delta?: { content?: string } }[] };
    return chunk.choices[0]?.delta?.content ?? "";
  });
  expect(pieces.filter((piece) => piece !== "").length).toBeGreaterThan(1);
  return pieces.join("");
}

test("streams a real response by the printed command", async () => {
  expect(await streamedText()).toContain("Paris");
});

test("deploys the model by the product's own API and offers it to all accounts", async () => {
  const headers = { authorization: `Bearer ${up.key()}` };
  const deployments = (await (await fetch(`${up.url}/deploy/list`, { headers })).json()) as { status: string }[];
  expect(deployments.map(({ status }) => status)).toEqual(["deployed"]);
  const models = (await (await fetch(`${up.url}/v1/models`, { headers })).json()) as { data: { id: string }[] };
  expect(models.data.map(({ id }) => id)).toContain(model);
});

test("lists the model and chats with it by the command line", async () => {
  const env = { ...process.env, STOKER_HOST: up.url, STOKER_API_KEY: up.key() };
  const list = await run(`${root}/cli/stoker`, ["model", "list"], { env });
  expect(list.stdout).toContain(model);
  const chat = await run(
    `${root}/cli/stoker`,
    ["chat", model, "--max-tokens", "30", "--temperature", "0", "Tell me the capital of France."],
    { env },
  );
  expect(chat.stdout).toContain("Paris");
  expect(chat.stderr).toMatch(/\d+ tokens, .* tokens\/s/);
});

test("exits with 4 for a model that does not exist", async () => {
  const env = { ...process.env, STOKER_HOST: up.url, STOKER_API_KEY: up.key() };
  const failed = run(`${root}/cli/stoker`, ["chat", "nobody/nothing", "Hi"], { env });
  await expect(failed).rejects.toMatchObject({ code: 4, stderr: expect.stringContaining("request id") });
});

test("keeps the model server running when only the agent is killed, and the next agent adopts it", async () => {
  const before = runningModelServers(dataDir);
  expect(before.length).toBe(1);
  const agent = up.children().find(({ name }) => name === "agent-1");
  if (!agent) throw new Error("no agent is recorded");
  process.kill(agent.pid, "SIGKILL");
  await vi.waitFor(() => expect(up.output()).toContain("The agent ended (SIGKILL)"), patient);
  await vi.waitFor(async () => expect(await streamedText()).toContain("Paris"), patient);
  expect(runningModelServers(dataDir)).toEqual(before);
});

test("leaves the running model server alone when a second start is refused", async () => {
  const before = runningModelServers(dataDir);
  expect(before.length).toBe(1);
  const second = startUp(dataDir, await freePort(), flags);
  expect(await second.ended()).toBe(1);
  expect(runningModelServers(dataDir)).toEqual(before);
  expect(await streamedText()).toContain("Paris");
});

test.runIf(isNightly)(
  "leaves no model server behind after Ctrl-C, and serves the same deployment from the same data",
  async () => {
    const key = up.key();
    const children = [...up.children(), ...runningModelServers(dataDir)];
    expect(children.length).toBe(4);
    const port = Number(new URL(up.url).port);
    up.process.kill("SIGINT");
    expect(await up.ended()).toBe(0);
    expect(children.filter(isAlive)).toEqual([]);

    up = startUp(dataDir, port, flags);
    await up.ready();
    expect(up.key()).toBe(key);
    expect(await streamedText()).toContain("Paris");
  },
);
