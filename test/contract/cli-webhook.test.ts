// `stoker webhook` against the real edge.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { apiKey } from "../fakes/ports.ts";
import { startWebhookReceiver, verified } from "../fakes/webhook-receiver.ts";
import { deliveryOfAda } from "../fakes/webhooks.ts";
import { runCli } from "./cli-run.ts";

let edge: Edge;
let folder: string;
beforeAll(async () => {
  edge = await startEdge();
  folder = mkdtempSync(join(tmpdir(), "stoker-cli-webhook-"));
});
afterAll(async () => {
  await edge?.close();
  rmSync(folder, { recursive: true, force: true });
});

const stoker = (args: readonly string[], input?: string, env: Readonly<Record<string, string>> = {}) =>
  runCli(edge, apiKey, ["webhook", ...args], { input, env });

it("prints the secret, the log and one delivery, and replays it", async () => {
  const [secret, list, info, replay, unknown] = await Promise.all([
    stoker(["secret"]),
    stoker(["list"]),
    stoker(["info", deliveryOfAda.webhookId]),
    stoker(["replay", deliveryOfAda.webhookId]),
    stoker(["replay", "msg_unknown"]),
  ]);
  expect(secret.out).toBe("whsec_AAAA\n");
  expect(list.out).toContain(deliveryOfAda.webhookId);
  expect(info.out).toMatch(/delivered\n.* 204 {2}20 ms/);
  expect(replay.out).toContain("Sending");
  expect(unknown.code).toBe(4);
});

it("sends a test delivery like the server and prints the result", async () => {
  const own = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
  edge.deps.webhooks.secret = async () => ({ secret: own, madeAtMs: 0, previousUntilMs: null });
  const receiver = await startWebhookReceiver();
  const at = `${receiver.origin}/hook`;
  const taken = await stoker(["test", at]);
  expect([taken.code, taken.err]).toEqual([0, ""]);
  const [call] = receiver.calls;
  expect(call && verified(own, call)).toMatchObject({ inference_status: { status: "succeeded" }, results: {} });
  receiver.answer((_, res) => res.writeHead(302, { location: `${receiver.origin}/elsewhere` }).end());
  const moved = await stoker(["test", at]);
  expect([moved.code, receiver.calls.at(-1)?.path]).toEqual([1, "/hook"]);
  expect(moved.err).toContain("Redirects are not followed");
  await receiver.close();
  expect((await stoker(["test", at])).code).toBe(7);
  expect((await stoker(["test", "nowhere"])).code).toBe(2);
}, 60_000);

it("accepts a genuine delivery and rejects changed, expired and foreign ones", async () => {
  const own = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
  const other = `whsec_${Buffer.alloc(32, 2).toString("base64")}`;
  writeFileSync(join(folder, "secret"), `${own}\n`);
  writeFileSync(join(folder, "body"), '{"a":"ü"}');
  const headers = (at: Date, secret = own) => [
    ...["--id", "msg_1", "--timestamp", String(Math.floor(at.getTime() / 1000))],
    ...["--signature", `v1,bm8= ${new Webhook(secret).sign("msg_1", at, '{"a":"ü"}')}`],
  ];
  const now = new Date();
  const old = new Date(now.getTime() - 6 * 60_000);
  const byFile = ["--secret-file", join(folder, "secret")];
  const [good, fromFile, changed, late, foreign] = await Promise.all([
    stoker(["verify", ...headers(now)], '{"a":"ü"}', { STOKER_WEBHOOK_SECRET: own }),
    stoker(["verify", ...headers(now), ...byFile, join(folder, "body")]),
    stoker(["verify", ...headers(now), ...byFile], '{"a":"u"}'),
    stoker(["verify", ...headers(old), ...byFile], '{"a":"ü"}'),
    stoker(["verify", ...headers(now, other), ...byFile], '{"a":"ü"}'),
  ]);
  expect([good, fromFile].map(({ out, code }) => [out.startsWith("msg_1 is genuine"), code])).toEqual([
    [true, 0],
    [true, 0],
  ]);
  expect([changed.code, late.code, foreign.code]).toEqual([1, 1, 1]);
  expect(changed.err).toContain("Verification failed");
});
