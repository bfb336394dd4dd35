// State of a host with its start time, its problems, and the actions that are possible in that state.
import type { Responses } from "../../proto/gen/responses.ts";
import { statusOf } from "./fleet.ts";
import type { Node } from "./nodes.ts";

export type FleetEvents = Responses["GET /v1/admin/events"];
export type FleetEvent = FleetEvents["events"][number];
export type Enrolment = Responses["GET /v1/admin/nodes/enrolment"];

const backInUse = ["host.joined", "host.usable", "host.returned", "host.uncordoned"];

/** ISO 8601 time since when the host has its status; its own record where no event is that old. `events`: newest first. */
export function sinceOf(node: Node, events: readonly Pick<FleetEvent, "at" | "kind">[], nowMs: number): string {
  if (node.state === "unreachable" || node.state === "lost")
    return new Date(nowMs - node.silent_seconds * 1000).toISOString();
  if (node.operation) return node.operation.began_at;
  const kinds = statusOf(node) === "ready" ? backInUse : ["host.unusable"];
  return events.find(({ kind }) => kinds.includes(kind))?.at ?? node.created_at;
}

/** Codes of conditions that need an operator's act: `code: what happened`, several separated by `; `. */
export const conditionCodes = [
  "cloned_identity",
  "control_plane_behind",
  "unknown_instances",
  "data_path_plain",
  "data_path_unreachable",
  "records_unwritable",
] as const;
export type ConditionCode = (typeof conditionCodes)[number];

export const codesOf = (node: Pick<Node, "condition" | "warnings">): readonly ConditionCode[] =>
  conditionCodes.filter((code) =>
    [node.condition, ...node.warnings].some((text) => new RegExp(`(^|; )${code}:`).test(text)),
  );

export type HostAct = "cordon" | "uncordon" | "drain" | "adopt" | "end_unknown" | "revoke" | "take_back" | "remove";

/** Actions that make sense in the present state, in the order of the buttons. */
export function actsOf(node: Node, isRevoked: boolean): readonly HostAct[] {
  const isGone = node.state === "lost" || node.state === "unreachable";
  const codes = codesOf(node);
  const acts: readonly (readonly [HostAct, boolean])[] = [
    ["uncordon", node.operation !== null || node.gpus.some((gpu) => gpu.cordoned_at !== null)],
    ["cordon", node.operation === null && !isRevoked],
    ["drain", !isRevoked],
    ["adopt", codes.includes("control_plane_behind")],
    ["end_unknown", codes.includes("unknown_instances")],
    ["take_back", isRevoked],
    ["remove", isGone && node.instances.length === 0],
    ["revoke", !isRevoked],
  ];
  return acts.filter(([, fits]) => fits).map(([act]) => act);
}
