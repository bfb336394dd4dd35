// CPU of control plane and agent with traces on, beside the same without, per request: four installations before their own engine
// stand-ins take turns in each round, and are restarted a few times: two processes that do the same differ by more than a tenth for as long
// as they run. The collector is a server in this process that reads and drops what it gets.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { BenchOptions } from "./figures.ts";
import { type Load, runWholeLoad } from "./load.ts";
import { cpuMs } from "./process-usage.ts";
import { type Stack, startStack } from "./stack.ts";

const concurrency = 32;
const maxStarts = 3;
const maxOfOff = 1.1;
const kinds = [
  { name: "request", requests: 1000, warmUp: 12_000, stream: false },
  { name: "stream", requests: 200, warmUp: 2400, stream: true },
] as const;
type Kind = (typeof kinds)[number];

const installations = [
  { name: "off", ratio: undefined },
  // Both sides are equal, so a ratio other than 1 is noise.
  { name: "off again", ratio: undefined },
  { name: "one trace in ten", ratio: "0.1" },
  { name: "every trace", ratio: "1" },
] as const;

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

const loadOf = ({ gatewayUrl, apiKey, model }: Stack, { stream }: Kind, requests: number): Load => ({
  url: gatewayUrl,
  path: "/v1/chat/completions",
  headers: { "content-type": "application/json", authorization: `Bearer ${apiKey}` },
  body: JSON.stringify({
    model,
    messages: [{ role: "user", content: "Tell me about the town on the hill, and its harbour." }],
    max_tokens: 64,
    ...(stream ? { stream: true } : {}),
  }),
  requests,
  concurrency,
  localAddress: undefined,
});

/** Microseconds per request. */
interface Cpu {
  readonly controlPlane: number;
  readonly agent: number;
}

async function measured(stack: Stack, kind: Kind, requests: number): Promise<Cpu> {
  const { controlPlane, agent } = stack.pids;
  const before = [cpuMs(controlPlane), cpuMs(agent)] as const;
  await runWholeLoad(loadOf(stack, kind, requests));
  const each = (pid: number, was: number) => ((cpuMs(pid) - was) * 1000) / requests;
  return { controlPlane: each(controlPlane, before[0]), agent: each(agent, before[1]) };
}

async function startSink() {
  let exports = 0;
  const server = createServer((request, response) => {
    exports += 1;
    request.resume().on("end", () => response.writeHead(200, { "content-type": "application/x-protobuf" }).end());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    exported: () => exports,
    close: () => server.close(),
  };
}

/** Rounds of newly started installations, by kind: the CPU of each installation. */
async function measureOnce(chosen: readonly Kind[], rounds: number, sinkUrl: string) {
  const stacks: Stack[] = [];
  try {
    for (const { ratio } of installations) {
      const env = ratio && {
        OTEL_EXPORTER_OTLP_ENDPOINT: sinkUrl,
        OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
        OTEL_TRACES_SAMPLER_ARG: ratio,
      };
      stacks.push(await startStack(env || {}));
    }
    for (const kind of chosen) for (const stack of stacks) await measured(stack, kind, kind.warmUp);
    const measurements = new Map<Kind, Cpu[][]>();
    for (const kind of chosen) {
      const all: Cpu[][] = [];
      for (let round = 0; round < rounds; round++) {
        const cpu: Cpu[] = [];
        for (let turn = 0; turn < stacks.length; turn++) {
          const place = (round + turn) % stacks.length;
          cpu[place] = await measured(stacks[place] as Stack, kind, kind.requests);
        }
        all.push(cpu);
      }
      measurements.set(kind, all);
    }
    return measurements;
  } finally {
    for (const stack of stacks) await stack.stop();
  }
}

export async function benchTracing({ rounds, only, figures }: BenchOptions): Promise<void> {
  const chosen = kinds.filter(({ name }) => only === undefined || name === only);
  const sink = await startSink();
  try {
    const measurements = new Map<Kind, Cpu[][]>(chosen.map((kind) => [kind, []]));
    const starts = Math.min(maxStarts, rounds);
    for (let start = 0; start < starts; start++) {
      const roundsOfStart = Math.floor((rounds * (start + 1)) / starts) - Math.floor((rounds * start) / starts);
      for (const [kind, all] of await measureOnce(chosen, roundsOfStart, sink.url))
        measurements.get(kind)?.push(...all);
    }
    const out: string[] = [];
    for (const [kind, all] of measurements) {
      out.push(
        `\nper ${kind.name}, ${concurrency} callers: sums of ${rounds} rounds, ${starts} starts; without traces = 1`,
      );
      for (const part of ["controlPlane", "agent"] as const) {
        // Sums: a round is a few hundred milliseconds, and one collection of garbage doubles it.
        const mean = installations.map((_, place) => sum(all.map((cpu) => (cpu[place] as Cpu)[part])) / rounds);
        const off = sum(
          installations.map(({ ratio }, place) => (ratio === undefined ? (mean[place] as number) / 2 : 0)),
        );
        for (const [place, { name, ratio }] of installations.entries()) {
          const us = mean[place] as number;
          const verdict =
            ratio === undefined
              ? ""
              : figures.judge({
                  name: `${kind.name}, ${part} CPU, ${name} / without traces`,
                  values: all.map((cpu) => (cpu[place] as Cpu)[part] / off),
                  value: us / off,
                  ...(ratio === "0.1" ? { atMost: maxOfOff } : {}),
                });
          out.push(
            `${part.padEnd(13)} ${name.padEnd(18)} ${us.toFixed(0).padStart(6)} us  ${(us / off).toFixed(2)}   ${verdict}`,
          );
        }
      }
    }
    out.push(`\nexports received: ${sink.exported()}`);
    process.stdout.write(`${out.join("\n")}\n`);
  } finally {
    sink.close();
  }
}
