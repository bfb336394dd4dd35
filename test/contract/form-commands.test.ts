// Commands that forms of the console show: each sends the same request as its form, whatever was chosen.
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { expect, it, onTestFinished } from "vitest";
import { type KeyForm, commandOf as keyCommand, newKey, rulesOf } from "../../console/domain/key-rules.ts";
import { commandOf, type DeployForm, requestOf } from "../../console/domain/new-deployment.ts";
import { programs } from "../fakes/programs.ts";

interface Sent {
  readonly path: string;
  readonly body: unknown;
}

/** Requests with a body that the command sends to a server which accepts everything. */
async function sentBy(command: string): Promise<readonly Sent[]> {
  const sent: Sent[] = [];
  const server = createServer(async (request, response) => {
    if (request.method === "POST") sent.push({ path: request.url ?? "", body: withoutNulls(await json(request)) });
    response.setHeader("content-type", "application/json").end('{"gpus":[],"token":"stk_made"}');
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const child = spawn("sh", ["-c", command.replace(/^stoker /, '"$NODE" "$CLI" ')], {
    env: {
      ...process.env,
      NODE: process.execPath,
      CLI: programs.cli,
      STOKER_HOST: `http://127.0.0.1:${port}`,
      STOKER_API_KEY: "stk_x",
    },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let errors = "";
  child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()));
  const code = await new Promise((resolve) => child.once("close", resolve));
  expect(code, errors).toBe(0);
  return sent;
}

/** A field that is null is a field that is absent, in every request body of these forms. */
function withoutNulls(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (_key, one: unknown) => (one === null ? undefined : one)));
}

const deployForm: DeployForm = {
  source: "Qwen/Qwen3-8B",
  revision: "v1.0",
  token: "",
  task: "text-generation",
  name: "ada/qwen3-8b",
  gpu: "H100-80GB",
  numGpus: 2,
  batch: 16,
  min: 0,
  max: 3,
  idle: "600",
  sleep: "120",
  targetTtft: "800",
  targetQueue: "300",
  engine: "vllm",
  args: "--max-num-seqs 64 --served-model-name 'a b'",
  context: "4096",
};

it.each([
  ["a language model", deployForm],
  ["a model of another task", { ...deployForm, task: "embeddings", engine: "", args: "", context: "" }],
])(
  "sends the request of the deploy form for %s",
  async (_name, form) => {
    const { path, body } = requestOf(form);
    expect(await sentBy(`${commandOf(form)} --no-wait`)).toEqual([{ path, body: withoutNulls(body) }]);
  },
  60_000,
);

const keyForm: KeyForm = {
  name: "ci of ada",
  role: "read",
  models: ["org/a", "org/b"],
  budget: 12.5,
  lifetime: "30",
  project: "project-1",
  addresses: "192.0.2.0/24 2001:db8::1",
  requests: 60,
  tokens: 90_000,
  passesUsers: true,
};

it("sends the request of the key form", async () => {
  const [sent] = await sentBy(keyCommand(keyForm));
  const { expires_at: given, ...body } = (sent?.body ?? {}) as { readonly expires_at: number };
  const { expires_at: expected, ...rules } = rulesOf(keyForm, Date.now());
  expect({ path: sent?.path, body }).toEqual({
    path: "/v1/api-tokens",
    body: { name: keyForm.name, project_id: keyForm.project, ...rules },
  });
  expect(Math.abs(given - Number(expected))).toBeLessThan(120);
}, 60_000);

it.each(Object.keys(newKey) as (keyof KeyForm)[])("changes the command of the key form with the field %s", (field) => {
  expect(keyCommand({ ...newKey, [field]: keyForm[field] })).not.toBe(keyCommand(newKey));
});

it.each(Object.keys(deployForm) as (keyof DeployForm)[])(
  "changes the command of the deploy form with the field %s",
  (field) => {
    const value = deployForm[field];
    const other = typeof value === "number" ? value + 1 : field === "task" ? "embeddings" : `${value}9`;
    expect(commandOf({ ...deployForm, [field]: other })).not.toBe(commandOf(deployForm));
  },
);
