// GPUs of all hosts as small cells: one look at a thousand of them. Plain links, with one card for what is pointed at.
import { Card, Text } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import {
  type KeyboardEvent,
  type MouseEvent,
  memo,
  type ReactNode,
  type SyntheticEvent,
  useMemo,
  useState,
} from "react";
import { base } from "../../app/base.ts";
import { type CustomerMark, cellOf, gpuStateOf, type HostGpus, pathOfNode, type Shade } from "../../domain/fleet.ts";
import { type Gpu, gpuName, gpuTypeOf, healthOf, issuesOf, type Node } from "../../domain/nodes.ts";
import { text } from "../../text/fleet.ts";
import { bytes, percent } from "../../ui/format.ts";
import { Facts } from "../../ui/page.tsx";
import "./heat-map.css";

const words = text.map;

interface HeatMapProps {
  readonly hosts: readonly HostGpus[];
  readonly shade: Shade;
  readonly customers: ReadonlyMap<string, CustomerMark>;
}

interface Pointed {
  readonly gpu: string;
  readonly left: number;
  readonly top: number;
  readonly isAbove: boolean;
}

export function HeatMap({ hosts, shade, customers }: HeatMapProps): ReactNode {
  const [pointed, setPointed] = useState<Pointed | undefined>(undefined);
  const navigate = useNavigate();
  const handlers = useMemo(
    () => ({
      onMouseOver: (event: MouseEvent) => setPointed(pointedAt(cellAt(event))),
      onMouseLeave: () => setPointed(undefined),
      onFocus(event: SyntheticEvent) {
        const cell = cellAt(event);
        setPointed(pointedAt(cell));
        if (cell) moveTabStop(cell);
      },
      onBlur: () => setPointed(undefined),
      onKeyDown(event: KeyboardEvent) {
        if (event.key === "Escape") setPointed(undefined);
        const next = neighbour(event);
        if (!next) return;
        event.preventDefault();
        next.focus();
      },
      onClick(event: MouseEvent) {
        const link = (event.target as Element).closest<HTMLAnchorElement>("a[data-node]");
        if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
        event.preventDefault();
        void navigate({ to: pathOfNode(link.dataset["node"] ?? "") as never });
      },
    }),
    [navigate],
  );
  return (
    <>
      <Cells hosts={hosts} shade={shade} customers={customers} handlers={handlers} />
      {pointed && <GpuCard at={pointed} hosts={hosts} />}
    </>
  );
}

const cellAt = (event: SyntheticEvent): HTMLElement | null => (event.target as Element).closest<HTMLElement>(".gpu");

const cardWidth = 290;
const cardHeight = 230;

function pointedAt(cell: HTMLElement | null): Pointed | undefined {
  if (!cell) return undefined;
  const { left, top, bottom } = cell.getBoundingClientRect();
  const isAbove = bottom + cardHeight > innerHeight && top > cardHeight;
  return {
    gpu: cell.dataset["gpu"] ?? "",
    left: Math.max(8, Math.min(left, innerWidth - cardWidth - 8)),
    top: isAbove ? innerHeight - top + 6 : bottom + 6,
    isAbove,
  };
}

/** Tab reaches the cell that had the focus last, not all of them. */
function moveTabStop(cell: HTMLElement): void {
  for (const one of cell.closest(".fleet")?.querySelectorAll<HTMLElement>('.gpu[tabindex="0"]') ?? [])
    one.tabIndex = -1;
  cell.tabIndex = 0;
}

/** Cell that an arrow key leads to: the next GPU, or the GPU of the same place on the next host. */
function neighbour(event: KeyboardEvent): HTMLElement | undefined {
  const cell = cellAt(event);
  const all = [...(cell?.closest(".fleet")?.querySelectorAll<HTMLElement>(".gpu") ?? [])];
  if (!cell) return undefined;
  switch (event.key) {
    case "ArrowRight":
      return all[all.indexOf(cell) + 1];
    case "ArrowLeft":
      return all[all.indexOf(cell) - 1];
    case "Home":
      return all[0];
    case "End":
      return all.at(-1);
    case "ArrowDown":
    case "ArrowUp": {
      const host = cell.closest(".fleet-host");
      const next = event.key === "ArrowDown" ? host?.nextElementSibling : host?.previousElementSibling;
      const own = [...(host?.querySelectorAll(".gpu") ?? [])].indexOf(cell);
      const there = [...(next?.querySelectorAll<HTMLElement>(".gpu") ?? [])];
      return there[Math.min(own, there.length - 1)];
    }
    default:
      return undefined;
  }
}

interface CellsProps extends HeatMapProps {
  readonly handlers: object;
}

const Cells = memo(function Cells({ hosts, shade, customers, handlers }: CellsProps): ReactNode {
  const count = hosts.reduce((sum, { gpus }) => sum + gpus.length, 0);
  const density = count > 400 ? "dense" : count > 64 ? "normal" : "loose";
  const shown = hosts.filter(({ gpus }) => gpus.length > 0);
  return (
    // biome-ignore lint/a11y/useSemanticElements: no form groups these links.
    <div className="fleet" data-density={density} role="group" aria-label={words.label} {...handlers}>
      {shown.map(({ node, gpus }, at) => (
        <Host
          key={node.node_id}
          node={node}
          gpus={gpus}
          shade={shade}
          customers={customers}
          isFirst={at === 0}
          isWide={shown.some((one) => one.gpus.length > 4)}
        />
      ))}
    </div>
  );
});

interface HostProps extends Omit<HeatMapProps, "hosts"> {
  readonly node: Node;
  readonly gpus: readonly Gpu[];
  readonly isFirst: boolean;
  readonly isWide: boolean;
}

const Host = memo(function Host({ node, gpus, shade, customers, isFirst, isWide }: HostProps): ReactNode {
  const href = `${base}${pathOfNode(node.node_id)}`;
  const issues = issuesOf(node);
  return (
    <div className="fleet-host">
      <a
        className="fleet-host-name"
        href={href}
        data-node={node.node_id}
        tabIndex={-1}
        title={[node.name, ...issues].join("\n")}
        {...(issues.length > 0 ? { "data-attention": true } : {})}
      >
        {issues.length > 0 && "▲ "}
        {node.name}
      </a>
      <div className="fleet-gpus" {...(isWide ? {} : { "data-few": true })}>
        {gpus.map((gpu, at) => {
          const { tone, sign } = cellOf(gpu, shade, customers);
          return (
            // biome-ignore lint/a11y/useAnchorContent: the label is its name; the sign, which the style draws, would have to be part of it.
            <a
              key={gpu.uuid}
              className="gpu"
              href={href}
              data-node={node.node_id}
              data-gpu={gpu.uuid}
              data-tone={tone}
              tabIndex={isFirst && at === 0 ? 0 : -1}
              data-sign={sign}
              aria-label={labelOf(node, gpu)}
            />
          );
        })}
      </div>
    </div>
  );
});

const labelOf = (node: Node, gpu: Gpu): string =>
  [
    `${node.name} ${gpuName(gpu)}`,
    healthOf(gpu).word,
    ...(gpu.utilization_ratio === null ? [] : [`${words.facts.use} ${percent(gpu.utilization_ratio)}`]),
    ...(gpu.memory_used_bytes === null ? [] : [memoryOf(gpu)]),
    gpu.deploy_name ?? "",
    gpu.account?.email ?? "",
  ]
    .filter((part) => part !== "")
    .join(", ");

const memoryOf = (gpu: Gpu): string =>
  gpu.memory_used_bytes === null
    ? bytes(gpu.memory_bytes)
    : words.memory(bytes(gpu.memory_used_bytes), bytes(gpu.memory_bytes));

function GpuCard({ at, hosts }: { at: Pointed; hosts: readonly HostGpus[] }): ReactNode {
  const host = hosts.find(({ gpus }) => gpus.some(({ uuid }) => uuid === at.gpu));
  const gpu = host?.gpus.find(({ uuid }) => uuid === at.gpu);
  if (!host || !gpu) return null;
  const { sign, word } = healthOf(gpu);
  const { facts } = words;
  return (
    <Card
      className="gpu-card"
      withBorder
      shadow="md"
      padding="sm"
      aria-hidden="true"
      style={{ left: at.left, [at.isAbove ? "bottom" : "top"]: at.top }}
    >
      <Text fw={650} size="sm" mb={6}>
        {host.node.name} · {gpuName(gpu)}
      </Text>
      <Facts
        isWide
        of={[
          { label: facts.state, value: `${sign} ${gpuStateOf(gpu) === "used" ? text.filter.states.used : word}` },
          { label: facts.type, value: gpu.mig_profile ? `${gpu.type} (${gpu.mig_profile})` : gpuTypeOf(gpu) },
          gpu.deploy_name !== null && { label: facts.deployment, value: gpu.deploy_name },
          gpu.account !== null && { label: facts.customer, value: gpu.account.email },
          { label: facts.use, value: percent(gpu.utilization_ratio) },
          { label: facts.memory, value: memoryOf(gpu) },
          gpu.temperature_celsius !== null && {
            label: facts.temperature,
            value: words.celsius(gpu.temperature_celsius),
          },
          gpu.power_watts !== null && {
            label: facts.power,
            value: words.watts(gpu.power_watts, gpu.power_limit_watts),
          },
        ]}
      />
    </Card>
  );
}
