// `stoker` against a running server, as one types it: what came of each step.
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { vi } from "vitest";
import { startWebhookReceiver, verified } from "../../fakes/webhook-receiver.ts";

interface Server {
  readonly url: string;
  readonly apiKey: string;
  /** For files that are written and read. */
  readonly folder: string;
}
interface Names {
  /** Of models; the first one costs USD 20 per million tokens of an answer. */
  readonly CHAT: string;
  readonly SPEECH: string;
}

type Stoker = (args: readonly string[], key?: string) => Promise<string>;

const patient = { timeout: 60_000, interval: 200 };

export async function driveCommandLine(server: Server, names: Names): Promise<Record<string, unknown>> {
  /** What it printed; throws where it failed. */
  const stoker: Stoker = async (args, key = server.apiKey) => {
    const child = spawn(process.execPath, [join(import.meta.dirname, "../../../cli/main.ts"), ...args], {
      cwd: server.folder,
      env: { ...process.env, STOKER_HOST: server.url, STOKER_API_KEY: key },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
    const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
    if ((await exited) !== 0) throw new Error(`stoker ${args.join(" ")}: ${err}`);
    return out;
  };
  return {
    ...(await models(stoker, server, names)),
    ...(await keys(stoker, server, names)),
    ...(await batch(stoker, server, names)),
    ...(await webhook(stoker, server, names)),
  };
}

async function models(stoker: Stoker, { folder }: Server, { CHAT, SPEECH }: Names) {
  const [whole, streamed, spoken, list, info] = await Promise.all([
    stoker(["infer", "-m", CHAT, "-i", "input=Hello"]),
    stoker(["infer", "-m", CHAT, "-i", "prompt=Hello", "--stream"]),
    stoker(["infer", "-m", SPEECH, "-i", "text=Hello", "-o", "audio=said.{EXT}"]),
    stoker(["model", "list", "--search", "fake/c"]),
    stoker(["model", "get", CHAT]),
  ]);
  return {
    whole,
    streamed,
    spoken: [spoken.includes("data:audio/wav;base64,... (9 bytes"), readFileSync(join(folder, "said.wav"), "utf8")],
    list: list.split("\n").filter((line) => line.startsWith("fake/")).length,
    info: info.includes("API variants: default, compat-completions, compat-chat-completions, ai-sdk"),
  };
}

/** A key of its own: what it used is then known to the cent. */
async function keys(stoker: Stoker, { url }: Server, { CHAT }: Names) {
  const key = (await stoker(["token", "create", "typed"])).trim();
  const restricted = ["--models", CHAT, "--expires", "1h", "--limit", "1"];
  const scoped = (await stoker(["token", "mint", "--key", "typed", ...restricted])).trim();
  const said = await stoker(["infer", "-m", CHAT, "-i", "prompt=Hello"], scoped);
  await vi.waitFor(async () => {
    const query = `${url}/payment/usage/${encodeURIComponent(key)}?from=current`;
    const usage = await (await fetch(query, { headers: { authorization: `Bearer ${key}` } })).text();
    if (!usage.includes(CHAT)) throw new Error(`nothing was settled yet: ${usage}`);
  }, patient);
  const usage = await stoker(["usage"], key);
  const listed = JSON.parse(await stoker(["--json", "token", "list"])) as { token_id: string; name: string }[];
  const id = listed.find(({ name }) => name === "typed")?.token_id ?? "";
  const ended = await stoker(["token", "delete", id, "--yes"]);
  const after = await fetch(`${url}/v1/me`, { headers: { authorization: `Bearer ${key}` } });
  return {
    scoped: [scoped.startsWith("jwt:"), said],
    // Four tokens at USD 20 per million.
    usage: usage.includes(CHAT) && usage.includes("0.000080"),
    ended: [ended.startsWith("Revoked typed ("), after.status],
  };
}

async function batch(stoker: Stoker, { folder }: Server, { CHAT }: Names) {
  const line = (id: string) =>
    JSON.stringify({
      custom_id: id,
      method: "POST",
      url: "/v1/chat/completions",
      body: { model: CHAT, messages: [{ role: "user", content: "Hello" }], max_tokens: 8 },
    });
  writeFileSync(join(folder, "typed.jsonl"), `${line("a")}\n${line("b")}\n`);
  const id = (await stoker(["batch", "create", "typed.jsonl", "--wait"])).trim();
  const [state, results] = await Promise.all([stoker(["batch", "get", id]), stoker(["batch", "results", id])]);
  const ids = results
    .trim()
    .split("\n")
    .map((one) => (JSON.parse(one) as { custom_id: string }).custom_id);
  return { batch: state.replace(id, "ID").trim(), results: ids.sort() };
}

async function webhook(stoker: Stoker, { folder }: Server, { CHAT }: Names) {
  const receiver = await startWebhookReceiver();
  try {
    const asked = ["infer", "-m", CHAT, "-i", "input=Hello", "--webhook", `${receiver.origin}/told`];
    const queued = JSON.parse(await stoker(["--json", ...asked])) as { inference_status: { status: string } };
    const call = await vi.waitFor(() => {
      const [first] = receiver.calls;
      if (!first) throw new Error("nobody called yet");
      return first;
    }, patient);
    const header = (name: string) => String(call.headers[`webhook-${name}`]);
    const signed = ["--id", header("id"), "--timestamp", header("timestamp"), "--signature", header("signature")];
    writeFileSync(join(folder, "call"), call.body);
    writeFileSync(join(folder, "changed"), `${call.body} `);
    const [secret, genuine, changed, list] = await Promise.all([
      stoker(["webhook", "secret"]),
      stoker(["webhook", "verify", ...signed, "call"]),
      stoker(["webhook", "verify", ...signed, "changed"]).catch((error: Error) => error.message),
      stoker(["webhook", "list"]),
    ]);
    const trusted = verified(secret.trim(), call) as { inference_status: { status: string } };
    return {
      queued: queued.inference_status.status,
      told: trusted.inference_status.status,
      genuine: genuine.startsWith(`${header("id")} is genuine`),
      changed: changed.includes("Verification failed"),
      called: list.includes(header("id")),
    };
  } finally {
    await receiver.close();
  }
}
