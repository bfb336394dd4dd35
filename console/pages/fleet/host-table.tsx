import { Text } from "@mantine/core";
import type { ReactNode } from "react";
import { gpuStateOf, pathOfNode, statusOf } from "../../domain/fleet.ts";
import { issuesOf, type Node } from "../../domain/nodes.ts";
import { text } from "../../text/fleet.ts";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { bytes, percent } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
import { Status } from "../../ui/status.tsx";

const words = text.list;

export function HostTable({ nodes }: { nodes: readonly Node[] }): ReactNode {
  return (
    <DataTable name="hosts" rows={nodes} columns={columns} keyOf={({ node_id: id }) => id} empty={text.filter.none} />
  );
}

/** Undefined: no GPU reports it. */
function meanUse({ gpus }: Node): number | null {
  const known = gpus.flatMap(({ utilization_ratio: ratio }) => (ratio === null ? [] : [ratio]));
  return known.length === 0 ? null : known.reduce((sum, ratio) => sum + ratio, 0) / known.length;
}

const gpusText = ({ gpus }: Node): string =>
  [...Map.groupBy(gpus, ({ type }) => type)].map(([type, own]) => `${own.length} × ${type}`).join(", ");

const columns: readonly Column<Node>[] = [
  {
    name: words.host,
    value: (node) => node.name,
    show: (node) => (
      <Link to={pathOfNode(node.node_id)} fw={600} className="nowrap">
        {node.name}
      </Link>
    ),
  },
  { name: words.status, value: statusOf, show: (node) => <Status of={statusOf(node)} /> },
  {
    name: words.issues,
    value: (node) => issuesOf(node).join("; "),
    show: (node) => (
      <Text size="sm" lineClamp={2} maw={280} title={issuesOf(node).join("\n")}>
        {issuesOf(node).join("; ")}
      </Text>
    ),
  },
  {
    name: words.gpus,
    value: gpusText,
    show: (node) => (
      <Text size="sm" className="nowrap">
        {gpusText(node)}
      </Text>
    ),
  },
  { name: words.free, value: (node) => node.gpus.filter((gpu) => gpuStateOf(gpu) === "free").length },
  { name: words.use, value: meanUse, show: (node) => percent(meanUse(node)), isMinor: true },
  { name: words.instances, value: (node) => node.instances.length },
  { name: words.requests, value: (node) => node.instances.reduce((sum, one) => sum + one.in_flight, 0) },
  {
    name: words.disk,
    value: (node) => node.load?.disk_free_bytes ?? null,
    show: (node) => (node.load ? bytes(node.load.disk_free_bytes) : "–"),
  },
  { name: words.pool, value: (node) => node.pool, isMinor: true },
  { name: words.agent, value: (node) => node.agent_version, isMinor: true },
  {
    name: words.seen,
    value: (node) => Math.round(node.silent_seconds),
    show: (node) => words.seconds(node.silent_seconds),
    isMinor: true,
  },
];
