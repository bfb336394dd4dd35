// Checks of agents: those on this machine by their own pages, others by the record of the control plane.
import { X509Certificate } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Inspection, inspect } from "../local-agent.ts";
import { type Node, type Spool, troubles, typeText } from "../node.ts";
import { type Finding, failure, ok, warning } from "./finding.ts";
import { certificateFinding } from "./server.ts";

/** As the alert ClockSkew. */
const maxSkewSeconds = 2;
/** As the alert CertExpiry: renewal begins with 24 h left. */
const renewalDays = 20 / 24;
const maxSpoolAgeSeconds = 600;
const uncordon = "Reset or reseat the GPU, then return it to use: stoker node uncordon NODE --gpu UUID";

export async function checkLocalAgent(folder: string, version: string): Promise<readonly Finding[]> {
  let host: Inspection;
  try {
    host = await inspect(folder);
  } catch (error) {
    const text = (error as Error).message.replace(" Check that it is running.", "");
    return [failure("agent", text, `Start it again, and read its log if it ends.`), ...certificateOf(folder)];
  }
  return [...inspectionFindings(host, version), ...certificateOf(folder)];
}

export function inspectionFindings(host: Inspection, version: string): readonly Finding[] {
  const { control } = host;
  const where = `Check the way to ${control.addresses.join(", ") || "the control plane"}: address, firewall, certificate.`;
  return [
    control.fenced_why
      ? failure("agent", `${host.name} serves nothing: ${control.fenced_why}`, "See docs/operations/hosts.md.")
      : control.connected
        ? ok("agent", `${host.name} ${host.agent_version} is connected to ${control.addresses.join(", ")}`)
        : failure("agent", `${host.name} is not connected to ${control.addresses.join(", ")}.`, where),
    ...(host.agent_version === version
      ? []
      : [
          warning(
            "version",
            `The agent ${host.name} is ${host.agent_version}, this program ${version}.`,
            "Update the older one; control planes first, then agents.",
          ),
        ]),
    ...skewOf(host.name, control.clock_skew_seconds),
    ...spoolOf(host.name, host.usage_spool),
    ...host.warnings.map((text) => warning("agent", text, "See docs/operations/hosts.md.")),
    ...troubles(host.gpus).map((text) => failure("gpu", text, uncordon)),
  ];
}

/** A host as the control plane sees it. */
export function nodeFindings(node: Node): readonly Finding[] {
  const seen = `last message ${Math.round(node.silent_seconds)} s ago`;
  const { load } = node;
  return [
    node.state === "ready"
      ? ok("agent", `${node.name} ${node.agent_version} is ready, ${seen}`)
      : failure(
          "agent",
          `${node.name} is ${node.state}, ${seen}.`,
          "Run `stoker doctor` on that host, or see docs/operations/hosts.md.",
        ),
    ok("host", `${node.os}, ${node.cpu_cores} cores, ${(node.memory_bytes / 1024 ** 3).toFixed(1)} GiB memory`),
    ...(node.condition === ""
      ? []
      : [
          warning(
            "placement",
            `No instances are placed on it: ${node.condition}`,
            "`stoker node uncordon NODE` ends a cordon; docs/operations/hosts.md lists the other conditions.",
          ),
        ]),
    gpuFinding(node),
    ...troubles(node.gpus).map((text) => failure("gpu", text, uncordon)),
    ...skewOf(node.name, node.clock_skew_seconds),
    ...spoolOf(node.name, node.usage_spool),
    ...(load && load.disk_free_bytes < load.disk_total_bytes / 10
      ? [
          warning(
            "disk",
            `${(load.disk_free_bytes / 1024 ** 3).toFixed(1)} GiB free on its data folder's disk`,
            "Free space, or move the data folder of the agent to a larger disk.",
          ),
        ]
      : []),
    ...node.warnings.map((text) => warning("agent", text, "See docs/operations/hosts.md.")),
  ];
}

function gpuFinding({ gpus, nvidia_driver_version: driver, cuda_version: cuda }: Node): Finding {
  const types = [...Map.groupBy(gpus, typeText)].map(([type, ones]) => `${ones.length} x ${type}`);
  const versions = [driver && `driver ${driver}`, cuda && `CUDA ${cuda}`].filter((text) => text !== "");
  return ok("gpu", [types.join(", ") || "No GPU", ...versions].join(", "));
}

function skewOf(name: string, seconds: number | null): readonly Finding[] {
  if (seconds === null) return [];
  const text = `The clock of ${name} is ${seconds.toFixed(1)} s off the control plane's.`;
  if (Math.abs(seconds) <= maxSkewSeconds) return [];
  return [warning("clock", text, "Synchronise it: timedatectl set-ntp true, or run chrony.")];
}

function spoolOf(name: string, spool: Spool | null): readonly Finding[] {
  if (!spool || spool.oldest_age_seconds <= maxSpoolAgeSeconds) return [];
  return [
    warning(
      "records",
      `${name} keeps ${spool.records} usage records that the control plane has not taken, the oldest for ${Math.round(spool.oldest_age_seconds)} s.`,
      "They are sent when the connection is back. Check the control plane and its database.",
    ),
  ];
}

/** Certificate of the host, valid for 72 h. */
function certificateOf(folder: string): readonly Finding[] {
  const path = join(folder, "identity", "certificate.json");
  if (!existsSync(path)) return [];
  try {
    const { certificatePem } = JSON.parse(readFileSync(path, "utf8")) as { certificatePem: string };
    const leftMs = new X509Certificate(certificatePem).validToDate.getTime() - Date.now();
    const fix = "Connect the agent to its control plane, or join again: stoker node token create --node NODE";
    return [certificateFinding(`the agent in ${folder}`, leftMs, renewalDays, fix)];
  } catch (error) {
    const fix = "Run this command as the user of the agent.";
    return [warning("certificate", `Could not read ${path}: ${(error as Error).message}`, fix)];
  }
}
