// Reads the state of this host from the local agent, without a control plane or an API key.
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { agentFolders, type Inspection, inspect } from "../local-agent.ts";
import { gpuLine, gpusTitle, instanceLine, loadLine, troubles } from "../node.ts";

export function addInspect(program: Command): void {
  program
    .command("inspect")
    .description("show this host from its local agent; works while the control plane is down")
    .example("stoker inspect")
    .option("--data <folder>", "data folder of the agent (default: STOKER_AGENT_DATA, or those of the running `up`)")
    .run(async (terminal, flags: { data?: string }) => {
      const folders = agentFolders(flags.data, process.env, process.cwd());
      if (folders.length === 0) {
        const named = flags.data ?? process.env["STOKER_AGENT_DATA"];
        const where = named === undefined ? "in the default folders" : `at ${named}`;
        throw new CliError(`No agent found ${where}. Set its data folder with --data.`, exitCode.notFound);
      }
      const found = await Promise.all(folders.map(inspect));
      if (terminal.isStructured && found.length === 1) return terminal.show(found[0], String);
      terminal.show(found, (all) => all.map((host, at) => describe(host, folders[at] ?? "")).join("\n\n"));
    });
}

function describe(host: Inspection, folder: string): string {
  const { control, usage_spool: spool } = host;
  const age = host.gpu_sample_age_seconds;
  const facts = [
    ["id", host.node_id],
    ["data", folder],
    ["agent", `${host.agent_version}, driver ${host.driver}`],
    ["control", `${control.addresses.join(", ") || "none (uses a file)"} (${sessionOf(control)})`],
    ["data path", host.advertise],
    ["spool", `${spool.records} records, ${spool.bytes} bytes, oldest ${Math.round(spool.oldest_age_seconds)} s`],
    ["system", host.os],
    ["docker", host.docker_version],
    ["nvidia", host.nvidia_driver_version && `${host.nvidia_driver_version}, CUDA ${host.cuda_version || "unknown"}`],
    ["load", host.load ? loadLine(host.load) : ""],
    ...host.warnings.map((warning) => ["warning", warning] as const),
    ...troubles(host.gpus).map((trouble) => ["fault", trouble] as const),
  ] as const satisfies readonly (readonly [string, string])[];
  return [
    host.name,
    ...facts.filter(([, value]) => value !== "").map(([name, value]) => `  ${name.padEnd(10)} ${value}`),
    ...(host.gpus.length > 0 ? [`${gpusTitle(host.gpus)}${age === null ? "" : ` (${Math.round(age)} s ago)`}`] : []),
    ...host.gpus.map((gpu) => `  ${gpuLine(gpu)}`),
    ...(host.instances.length > 0 ? ["Instances"] : []),
    ...host.instances.flatMap((one) => [
      `  ${instanceLine(one)}`,
      ...(one.fail_reason ? [`    ${one.fail_reason}`] : []),
    ]),
  ].join("\n");
}

function sessionOf(control: Inspection["control"]): string {
  if (control.fenced_why) return `FENCED, serves and starts nothing: ${control.fenced_why}`;
  if (control.connected)
    return `connected, epoch ${control.epoch}, lease ${Math.round(control.lease_remaining_seconds)} s`;
  if (control.admits_requests === false)
    return "NOT connected since the agent started; instances keep running, requests wait for the control plane";
  return "NOT connected; requests are still served, usage is kept";
}
