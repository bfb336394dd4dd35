import { setTimeout as wait } from "node:timers/promises";
import { Option } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import { isProcessorSlot } from "../../proto/gpu-vendors.ts";
import { exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { counted } from "../counted.ts";
import { gpuLine, instanceLine, loadLine, type Node, troubles } from "../node.ts";
import { atLeast } from "../option-values.ts";
import type { Terminal } from "../terminal.ts";

interface TopFlags {
  readonly nodes?: boolean;
  readonly deployments?: boolean;
  readonly by?: string;
  readonly order?: string;
  readonly every: number;
}

type Use = Responses["GET /v1/admin/top"];

export function addTop(program: Command): void {
  program
    .command("top")
    .description("live view of the fleet until q is pressed; prints once if stdout is not a terminal")
    .example("stoker top --by customer")
    .option("--nodes", "GPUs by host (default)")
    .option("--deployments", "instances by deployment")
    .addOption(new Option("--by <kind>", "what uses the most").choices(["model", "customer", "deployment", "host"]))
    .addOption(
      new Option("--order <figure>", "order of --by (default: requests, of hosts gpu_use)").choices([
        ...["requests", "errors", "tokens", "gpus", "gpu_use", "queue", "spend"],
      ]),
    )
    .option("--every <seconds>", "refresh interval", atLeast(1), 2)
    .run(async (terminal, flags: TopFlags) => {
      const show = (isLive: boolean) =>
        flags.by === undefined ? showNodes(terminal, flags, isLive) : showUse(terminal, flags, isLive);
      if (!process.stdout.isTTY || terminal.isStructured) return show(false);
      const quit = quitKey();
      try {
        while (!quit.signal.aborted) {
          // Does not wait for a server that is slow or down.
          await Promise.race([show(true), quit.pressed]);
          await wait(flags.every * 1_000, undefined, { signal: quit.signal }).catch(() => {});
        }
      } finally {
        quit.end();
      }
      // A request may still wait for its response.
      process.exit(exitCode.done);
    });
}

/** With Ctrl-C and Ctrl-D. */
const quitKeys: ReadonlySet<string> = new Set(["q", "Q", "\u0003", "\u0004"]);

/** Waits for a key that quits. Keys are read one by one only while stdin is a terminal; otherwise Ctrl-C is the usual signal. */
function quitKey() {
  const controller = new AbortController();
  const { signal } = controller;
  const pressed = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  const { stdin } = process;
  const onKeys = (keys: Buffer): void => {
    if ([...keys.toString("latin1")].some((key) => quitKeys.has(key))) controller.abort();
  };
  if (stdin.isTTY) stdin.setRawMode(true).on("data", onKeys);
  return {
    signal,
    pressed,
    end() {
      if (stdin.isTTY) stdin.off("data", onKeys).setRawMode(false).pause();
    },
  };
}

async function showNodes(terminal: Terminal, flags: TopFlags, isLive: boolean): Promise<void> {
  const { nodes } = await terminal.api.call<{ nodes: Node[] }>("GET", "/v1/admin/nodes");
  const text = flags.deployments ? byDeployment(nodes) : byNode(nodes);
  if (isLive) {
    terminal.clear();
    terminal.write(`${cutToScreen(text)}\n${quitHint}`);
  } else terminal.show(nodes, () => text);
}

async function showUse(terminal: Terminal, { by = "model", order }: TopFlags, isLive: boolean): Promise<void> {
  const query = new URLSearchParams({ by, ...(order === undefined ? {} : { order }) });
  const { rows } = await terminal.api.call<Use>("GET", `/v1/admin/top?${query}`);
  if (isLive) terminal.clear();
  const shown = (value: number | null, digits = 1) => (value === null ? "-" : value.toFixed(digits));
  // Besides the rows: their head and the hint.
  terminal.rows(isLive ? rows.slice(0, screenRows() - 2) : rows, {
    NAME: "name",
    ...(by === "model" || by === "deployment"
      ? { OWNER: (one: Use["rows"][number]) => one.account?.email ?? "-" }
      : {}),
    "REQ/S": (one) => shown(one.requests_per_second),
    "ERR/S": (one) => shown(one.errors_per_second),
    "TOK/S": (one) => shown(one.tokens_per_second),
    GPUS: (one) => String(one.gpus_held),
    USE: (one) => (one.gpu_use_ratio === null ? "-" : `${Math.round(one.gpu_use_ratio * 100)}%`),
    QUEUE: (one) => String(one.waiting_requests),
    "USD/H": (one) => shown(one.spend_last_hour_usd, 2),
  });
  if (isLive) terminal.write(quitHint);
}

const quitHint = "q: quit";
const screenRows = (): number => process.stdout.rows || 24;

/** Cuts the text to the screen. */
function cutToScreen(text: string): string {
  const columns = process.stdout.columns || 80;
  return text
    .split("\n")
    .slice(0, screenRows() - 1)
    .map((line) => line.slice(0, columns))
    .join("\n");
}

function byNode(nodes: readonly Node[]): string {
  const gpus = nodes.flatMap((node) => node.gpus);
  const free = gpus.filter((gpu) => gpu.is_healthy && !gpu.is_claimed).length;
  const faulty = gpus.filter((gpu) => !gpu.is_healthy).length;
  const tokens = sum(nodes, (node) => sum(node.instances, (one) => one.tokens_per_second));
  const flying = sum(nodes, (node) => sum(node.instances, (one) => one.in_flight));
  const head = `${counted(nodes.length, "host")}  ${counted(gpus.length, gpus.length > 0 && gpus.every(isProcessorSlot) ? "processor slot" : "GPU")}, ${free} free, ${faulty} faulty  ${counted(flying, "request")}  ${tokens.toFixed(1)} tok/s`;
  return [head, ...nodes.flatMap(nodeLines)].join("\n");
}

function nodeLines(node: Node): readonly string[] {
  const age = node.figures_age_seconds;
  const stale = age !== null && age > 15 ? `  (data ${Math.round(age)} s old)` : "";
  return [
    "",
    `${node.name}  ${node.state}${stale}`,
    ...(node.load ? [`  ${loadLine(node.load)}`] : []),
    ...node.gpus.map((gpu) => `  ${gpuLine(gpu)}`),
    ...troubles(node.gpus).map((trouble) => `  ! ${trouble}`),
    ...node.instances.map((one) => `  ${instanceLine(one)}`),
  ];
}

function byDeployment(nodes: readonly Node[]): string {
  const instances = nodes.flatMap((node) => node.instances.map((one) => ({ ...one, node: node.name })));
  const groups = [...Map.groupBy(instances, (one) => one.deploy_id)];
  if (groups.length === 0) return "No instances.";
  return groups
    .map(([deployment, ones]) => {
      const ready = ones.filter(({ phase }) => phase === "ready").length;
      const tokens = sum(ones, (one) => one.tokens_per_second).toFixed(1);
      const [first] = ones;
      const name = first ? `${first.deploy_name}  ${first.account.email}  ${deployment}` : deployment;
      const head = `${name}\n  ${ready}/${ones.length} ready  ${counted(
        sum(ones, (one) => one.in_flight),
        "request",
      )}  ${tokens} tok/s`;
      return [head, ...ones.map((one) => `  ${one.node}  ${instanceLine(one)}`)].join("\n");
    })
    .join("\n\n");
}

const sum = <T>(values: readonly T[], of: (value: T) => number) =>
  values.reduce((total, value) => total + of(value), 0);
