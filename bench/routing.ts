// Cost of the router's choice for agents of 32 KB prompts and for short chats, by number of instances: absolute, because the limit is.

import type { Route } from "../control-plane/fleet/routes.ts";
import { PrefixIndex } from "../control-plane/inference/prefix-index.ts";
import { PromptScopes } from "../control-plane/inference/prompt-blocks.ts";
import { type Choice, Router } from "../control-plane/inference/route.ts";
import type { DeploymentId, HostId, InstanceId } from "../proto/ids.ts";
import type { BenchOptions } from "./figures.ts";
import { median } from "./load.ts";

const limitUs = 5;
const choices = 20_000;

const routeTo = (slot: number): Route => ({
  instanceId: `instance-${slot}` as InstanceId,
  deployId: "D000000000000001" as DeploymentId,
  hostId: `host-${slot}` as HostId,
  origin: "",
  ticketKey: Buffer.alloc(0),
  maxBatchSize: 96,
  slot,
  inFlight: slot % 7,
  queuedTokens: 0,
});

const conversation = (number: number, bytes: number): Buffer =>
  Buffer.from(
    JSON.stringify({
      model: "m",
      messages: [
        { role: "system", content: "You use tools with care. ".repeat(bytes / 50) },
        { role: "user", content: `Conversation ${number}. `.repeat(bytes / 40) },
      ],
    }),
  );

export async function benchRouting({ rounds, figures }: BenchOptions): Promise<void> {
  for (const bytes of [300, 4_000, 32_000, 400_000])
    for (const count of [8, 64, 1_000]) {
      const ready = Array.from({ length: count }, (_, slot) => routeTo(slot));
      const router = new Router(Math.random, new PrefixIndex());
      const bodies = Array.from({ length: 256 }, (_, number) => conversation(number, bytes));
      const scope = new PromptScopes(Buffer.from("bench")).of("account", undefined);
      const hashUs: number[] = [];
      const pickUs: number[] = [];
      for (let round = 0; round <= rounds; round++) {
        let hashMs = 0;
        const total = bytes > 100_000 ? choices / 10 : choices;
        const startedMs = performance.now();
        // Hashed by itself first: a clock for each choice would cost more than the choice.
        for (let i = 0; i < total; i++) router.blocks.fill(bodies[i % bodies.length] as Buffer, "messages", scope);
        hashMs = performance.now() - startedMs;
        const pickedMs = performance.now();
        for (let i = 0; i < total; i++) {
          const body = bodies[i % bodies.length] as Buffer;
          router.blocks.fill(body, "messages", scope);
          const prompt = { blocks: router.blocks, tokens: body.length / 4, sequences: 1, scope };
          const choice = router.pick(ready, [], prompt) as Choice;
          router.sent(choice);
          router.ended(choice);
        }
        const bothMs = performance.now() - pickedMs;
        // The first round warms the compiler up.
        if (round === 0) continue;
        hashUs.push((hashMs / total) * 1000);
        pickUs.push(((bothMs - hashMs) / total) * 1000);
      }
      const verdict = figures.judge({
        name: `choice, ${bytes} bytes, ${count} instances`,
        unit: "us",
        values: pickUs,
        ...(count === 64 ? { atMost: limitUs } : {}),
      });
      process.stdout.write(
        `${String(bytes).padStart(7)} bytes, ${String(count).padStart(4)} instances: hash ${median(hashUs).toFixed(2)} us, choice ${median(pickUs).toFixed(2)} us   ${verdict}\n`,
      );
    }
}
