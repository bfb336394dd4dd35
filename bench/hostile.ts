// Delay that a hostile request causes for others: each is sent alone while /healthz is polled on a separate connection. The delay is
// the slowest response minus the slowest without load, the median of the rounds, without time in which a process waited for a CPU.
import { readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { connect } from "node:net";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { type HostileRequest, hostileRequests } from "../test/fakes/hostile-requests.ts";
import type { BenchOptions } from "./figures.ts";
import { median } from "./load.ts";
import { type Stack, startStack } from "./stack.ts";

const limitMs = 50;
const calmMs = 3_000;
const print = (line: string) => process.stdout.write(`${line}\n`);

export async function benchHostile({ rounds, only, figures }: BenchOptions) {
  const stack = await startStack();
  try {
    const { gatewayUrl, apiKey } = stack;
    const times = Math.min(rounds, 3);
    const calm: number[] = [];
    for (let i = 0; i < times; i++) calm.push(await slowestDuring(stack, () => sleep(calmMs)));
    const calmSlowestMs = median(calm);
    print(`calm: slowest /healthz ${calmSlowestMs.toFixed(1)} ms`);
    let worstMs = 0;
    const judge = async (name: string, send: () => Promise<string>) => {
      if (only !== undefined && !name.includes(only)) return;
      const slowest: number[] = [];
      let outcome = "";
      for (let i = 0; i < times; i++)
        slowest.push(
          await slowestDuring(stack, async () => {
            outcome = await send();
          }),
        );
      const delaysMs = slowest.map((ms) => Math.max(0, ms - calmSlowestMs));
      worstMs = Math.max(worstMs, median(delaysMs));
      const verdict = figures.judge({ name, unit: "ms", values: delaysMs, atMost: limitMs });
      print(`${median(delaysMs).toFixed(1).padStart(7)} ms  ${verdict}  ${outcome.padEnd(5)} ${name}`);
    };
    for (const one of hostileRequests(stack.model)) await judge(one.name, () => send(gatewayUrl, apiKey, one));
    for (const [name, bytes] of rawRequests()) await judge(name, () => sendRaw(gatewayUrl, bytes));
    print(`worst: ${worstMs.toFixed(1)} ms beyond calm`);
  } finally {
    await stack.stop();
  }
}

/** Raw bytes that no client library sends. */
function rawRequests(): (readonly [name: string, bytes: Buffer])[] {
  const get = (path: string, headers = "") => `GET ${path} HTTP/1.1\r\nhost: a\r\n${headers}\r\n`;
  return [
    ["20,000 requests at once on one connection", Buffer.from(get("/readyz").repeat(20_000))],
    ["20,000 requests for a path that is not there", Buffer.from(get("/nothing/here").repeat(20_000))],
    ["15 KiB of headers", Buffer.from(get("/healthz", "a: b\r\n".repeat(2_500)))],
    ["1 MiB of headers", Buffer.from(get("/healthz", `a: ${"b".repeat(1024 ** 2)}\r\n`))],
    ["a query of 15 KiB of digits", Buffer.from(get(`/cli/version?version=${"1".repeat(15_000)}x`))],
    ["a query of 5,000 names", Buffer.from(get(`/cli/version?${"a&".repeat(7_000)}`))],
    ["a scoped token of 15 KiB", Buffer.from(get("/v1/me", `authorization: Bearer jwt:${"a.".repeat(7_000)}\r\n`))],
    ["a cookie of 15 KiB", Buffer.from(get("/v1/me", `cookie: ${"session=a;".repeat(1_400)}\r\n`))],
  ];
}

/** Slowest /healthz response while `work` runs, in ms. */
async function slowestDuring({ gatewayUrl, pids }: Stack, work: () => Promise<unknown>): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  let slowest = 0;
  let isOver = false;
  const probing = (async () => {
    while (!isOver) {
      const waited = waitedMs(pids.controlPlane) + waitedMs("self");
      const from = performance.now();
      await probe(gatewayUrl, agent);
      const tookMs = performance.now() - from;
      slowest = Math.max(slowest, tookMs - (waitedMs(pids.controlPlane) + waitedMs("self") - waited));
      await sleep(1);
    }
  })();
  await sleep(50);
  await work();
  // Includes effects after the response.
  await sleep(100);
  isOver = true;
  await probing;
  agent.destroy();
  return slowest;
}

/** Time in which the main thread was runnable without a CPU. */
const waitedMs = (pid: number | "self"): number =>
  Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[1]) / 1e6;

function probe(url: string, agent: Agent): Promise<void> {
  return new Promise((resolve, reject) => {
    request(`${url}/healthz`, { agent }, (answer) => {
      answer.resume().once("end", resolve);
    })
      .once("error", reject)
      .end();
  });
}

function send(url: string, apiKey: string, { path, body, headers, isKeyed }: HostileRequest): Promise<string> {
  return new Promise((resolve) => {
    const sent = request(
      url + path,
      {
        method: "POST",
        agent: false,
        headers: {
          "content-type": "application/json",
          "content-length": body.length,
          ...(isKeyed ? { authorization: `Bearer ${apiKey}` } : {}),
          ...headers,
        },
      },
      (answer) => {
        answer.resume().once("close", () => resolve(String(answer.statusCode)));
      },
    );
    sent.once("error", () => resolve("cut"));
    // Sent in chunks, because one write of 50 MB would block this process.
    Readable.from(pieces(body))
      .on("error", () => {})
      .pipe(sent);
  });
}

function* pieces(body: Buffer) {
  for (let at = 0; at < body.length; at += 1024 ** 2) yield body.subarray(at, at + 1024 ** 2);
}

function sendRaw(url: string, bytes: Buffer): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port) });
    let status = "cut";
    socket.once("data", (first) => {
      status = /^HTTP\/1\.1 (\d+)/.exec(first.toString("latin1"))?.[1] ?? "?";
    });
    socket.on("error", () => {});
    socket.once("close", () => resolve(status));
    socket.setTimeout(1_000, () => socket.destroy());
    socket.resume();
    socket.write(bytes);
  });
}
