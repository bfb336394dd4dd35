// Time from a `ready` report to routing, over real gRPC sessions with certificates.
import { startFakeAgent } from "../test/fakes/agent-session.ts";
import { startReplica } from "../test/integration/fleet/replica.ts";

const agentCount = 100;
const deployments = 40;

export async function benchRoutable(url: string, print: (line: string) => void): Promise<void> {
  const replica = await startReplica(url);
  const agents = await Promise.all(
    Array.from({ length: agentCount }, (_, n) =>
      startFakeAgent({ address: replica.address, token: replica.joinToken, hostId: `host-${n}`, gpus: 1 }),
    ),
  );
  const refused = new Map<string, number>();
  try {
    for (const agent of agents) agent.connect();
    await until(() => {
      // Reconnect refused agents, as real agents do.
      for (const agent of agents) {
        if (agent.ended === undefined) continue;
        refused.set(agent.ended, (refused.get(agent.ended) ?? 0) + 1);
        agent.connect();
      }
      return agents.every((agent) => agent.provenTimes > 0);
    });
    const waits: number[] = [];
    for (let n = 0; n < deployments; n++) {
      const { id } = await replica.deploy({ modelName: `ada/m${n}` });
      const findAgent = () => agents.find((agent) => agent.desired?.instances.some((one) => one.deployId === id));
      await until(() => findAgent() !== undefined);
      const agent = findAgent();
      const mine = (agent?.desired?.instances ?? []).map((one) => ({
        ...{ instanceId: one.instanceId, deployId: one.deployId, generation: one.generation },
        phase: "ready",
      }));
      const from = performance.now();
      agent?.report(mine);
      await until(() => replica.routing.ready(id).length > 0);
      waits.push(performance.now() - from);
    }
    waits.sort((a, b) => a - b);
    const at = (share: number) => Math.round(waits[Math.floor(share * (waits.length - 1))] ?? 0);
    print(`${agentCount} real sessions: report to routable p50 ${at(0.5)} ms, p95 ${at(0.95)} ms`);
    for (const [why, times] of refused) print(`  refused ${times} times: ${why}`);
  } finally {
    await Promise.all(agents.map((agent) => agent.close()));
    await replica.stop();
  }
}

async function until(isTrue: () => boolean): Promise<void> {
  const end = performance.now() + 60_000;
  while (!isTrue()) {
    if (performance.now() > end) throw new Error("condition not met within 60 s");
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}
