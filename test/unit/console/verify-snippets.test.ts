// The code that the console gives to receivers, run as it stands on calls that the official library signed.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { afterAll, expect, it } from "vitest";
import { verifySnippets } from "../../../console/domain/verify-snippets.ts";

const folder = mkdtempSync(join(tmpdir(), "stoker-verify-"));
afterAll(() => rmSync(folder, { recursive: true }));

const secret = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
const other = `whsec_${Buffer.alloc(32, 2).toString("base64")}`;
const body = '{"a":"\u00fc"}';
const now = new Date();
const minutes = (count: number) => new Date(now.getTime() + count * 60_000);

function signed(at: Date, by = secret) {
  const signature = new Webhook(by).sign("msg_1", at, body);
  return {
    "webhook-id": "msg_1",
    "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
    // As it is while a secret is replaced.
    "webhook-signature": `v1,${Buffer.alloc(32).toString("base64")} ${signature}`,
  };
}
const calls = [
  { headers: signed(now), body },
  { headers: signed(minutes(-4)), body },
  { headers: signed(now), body: body.replace("a", "b") },
  { headers: { ...signed(now), "webhook-id": "msg_2" }, body },
  { headers: signed(now, other), body },
  { headers: signed(minutes(-6)), body },
  { headers: signed(minutes(6)), body },
  { headers: {}, body },
  { headers: { ...signed(now), "webhook-timestamp": "soon" }, body },
];
const verdicts = [true, true, false, false, false, false, false, false, false];

/** Each call by a line of JSON: `secret`, `headers` and `body`. */
const judged = (command: string, args: readonly string[]) => {
  const input = JSON.stringify(calls.map((call) => ({ ...call, secret })));
  const ran = spawnSync(command, args, { input, encoding: "utf8" });
  expect(ran.status, ran.stderr).toBe(0);
  return JSON.parse(ran.stdout);
};

it("accepts only genuine deliveries in TypeScript", () => {
  const file = join(folder, "verify.mts");
  const run = `
import { readFileSync } from "node:fs";
const calls = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(calls.map((one) => isGenuine(one.secret, one.headers, Buffer.from(one.body)))));`;
  writeFileSync(file, verifySnippets.TypeScript + run);
  expect(judged(process.execPath, [file])).toEqual(verdicts);
});

const hasPython = spawnSync("python3", ["--version"]).status === 0;
if (!hasPython) console.warn("\n*** NOT PROVEN: Python's code for receivers of webhooks; there is no python3 here\n");

it.runIf(hasPython)("accepts only genuine deliveries in Python", () => {
  const run = `
import json, sys
calls = json.load(sys.stdin)
print(json.dumps([is_genuine(one["secret"], one["headers"], one["body"].encode()) for one in calls]))`;
  const file = join(folder, "verify.py");
  writeFileSync(file, verifySnippets.Python + run);
  expect(judged("python3", [file])).toEqual(verdicts);
});
