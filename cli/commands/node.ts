import { isProcessorSlot } from "../../proto/gpu-vendors.ts";
import { type Command, nodeGroup } from "../command.ts";
import { counted } from "../counted.ts";
import {
  gibText,
  gpuLine,
  gpusTitle,
  instanceLine,
  loadLine,
  type Node,
  percent,
  troubles,
  typeText,
} from "../node.ts";
import { hostName } from "../option-values.ts";

const root = "/v1/admin/nodes";

const isPlainDataPath = (warning: string): boolean => warning.startsWith("data_path_plain: ");

export function addNode(program: Command): void {
  const node = nodeGroup(program);

  node
    .command("list")
    .description("list hosts, those with issues first")
    .example("stoker node list --pool lab")
    .option("--pool <label>", "only hosts of this pool")
    .run(async (terminal, flags: { pool?: string }) => {
      const { nodes } = await terminal.api.call<{ nodes: Node[] }>("GET", root);
      const chosen = nodes.filter(({ pool }) => flags.pool === undefined || pool === flags.pool);
      const sorted = chosen.sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
      terminal.rows(
        sorted,
        {
          NAME: "name",
          STATE: "state",
          GPUS: (one) => gpuCounts(one),
          FREE: (one) => String(one.gpus.filter((gpu) => gpu.is_healthy && !gpu.is_claimed).length),
          CPU: (one) => percent(one.load?.cpu_ratio ?? null),
          MEMORY: (one) =>
            one.load ? `${gibText(one.load.memory_used_bytes)}/${gibText(one.load.memory_total_bytes)}G` : "-",
          INST: (one) => String(one.instances.length),
          SEEN: (one) => `${Math.round(one.silent_seconds)}s ago`,
          ID: "node_id",
        },
        {
          empty:
            flags.pool === undefined
              ? "No hosts. Add one: `stoker node token create`"
              : `No hosts in pool ${flags.pool}.`,
          wide: {
            POOL: (one) => one.pool || "-",
            AGENT: "agent_version",
            DRIVER: (one) => one.nvidia_driver_version || "-",
            DOCKER: (one) => one.docker_version || "-",
            CLOCK: (one) => (one.clock_skew_seconds === null ? "-" : `${one.clock_skew_seconds.toFixed(3)}s`),
            "DATA PATH": "advertise",
          },
        },
      );
      if (terminal.isStructured) return;
      for (const one of sorted) {
        if (one.condition !== "") terminal.progress(`${one.name}: ${one.condition}`);
        for (const warning of one.warnings.filter(isPlainDataPath)) terminal.progress(`${one.name}: ${warning}`);
        for (const trouble of troubles(one.gpus)) terminal.progress(`${one.name}: ${trouble}`);
      }
    });

  node
    .command("get")
    .alias("info")
    .description("show a host with versions, GPUs and instances")
    .example("stoker node get gpu-1")
    .argument("<node>", "id or name", hostName)
    .run(async (terminal, id: string) => {
      terminal.show(await terminal.api.call<Node>("GET", `${root}/${encodeURIComponent(id)}`), describe);
    });

  node
    .command("uncordon")
    .description("put a cordoned host or faulty GPUs back into use")
    .example("stoker node uncordon gpu-1")
    .argument("<node>", "id or name", hostName)
    .option("--gpu <uuid>", "only this GPU")
    .option("--note <text>", "reason, recorded in the audit log")
    .run(async (terminal, id: string, flags: { gpu?: string; note?: string }) => {
      const path = `${root}/${encodeURIComponent(id)}/uncordon`;
      const after = await terminal.api.call<Node>("POST", path, { gpu: flags.gpu ?? null, note: flags.note ?? null });
      terminal.show(after, describe);
    });
}

const rank = (node: Node): number => (node.state === "ready" ? (node.gpus.every((gpu) => gpu.is_healthy) ? 2 : 1) : 0);

/** `8xH100-80GB`, for each type; `4 processor slots`. */
function gpuCounts(node: Node): string {
  const byType = Map.groupBy(node.gpus, typeText);
  return [...byType]
    .map(([type, gpus]) => (gpus.every(isProcessorSlot) ? counted(gpus.length, type) : `${gpus.length}x${type}`))
    .join(" ");
}

function describe(node: Node): string {
  const { usage_spool: spool, clock_skew_seconds: skew, figures_age_seconds: age } = node;
  const facts = [
    ["id", node.node_id],
    ["pool", node.pool ?? ""],
    ["state", node.state],
    ["condition", node.condition],
    ["last seen", `${Math.round(node.silent_seconds)} s ago`],
    ["data path", node.advertise],
    ["agent", node.agent_version],
    ["system", node.os],
    ["processor", `${node.cpu_cores} x ${node.cpu_model}`],
    ["docker", node.docker_version],
    ["driver", node.nvidia_driver_version && `${node.nvidia_driver_version}, CUDA ${node.cuda_version || "unknown"}`],
    ["clock", skew === null ? "" : `${skew.toFixed(3)} s offset from the control plane`],
    ["spool", spool ? `${spool.records} records, oldest ${Math.round(spool.oldest_age_seconds)} s` : ""],
    ["load", node.load ? loadLine(node.load) : ""],
    ["figures", age === null ? "none yet" : `${Math.round(age)} s old`],
    ...node.warnings.map((warning) => ["warning", warning] as const),
    ...troubles(node.gpus).map((trouble) => ["fault", trouble] as const),
  ] as const satisfies readonly (readonly [string, string])[];
  return [
    node.name,
    ...facts.filter(([, value]) => value !== "").map(([name, value]) => `  ${name.padEnd(10)} ${value}`),
    ...(node.gpus.length > 0 ? [gpusTitle(node.gpus), ...node.gpus.map((gpu) => `  ${gpuLine(gpu)}`)] : []),
    ...(node.instances.length > 0 ? ["Instances", ...node.instances.map((one) => `  ${instanceLine(one)}`)] : []),
  ].join("\n");
}
