// `stoker agent`: long-lived containers with a volume. `stoker backup`: copies of such a volume.
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { CliError, exitCode } from "../cli-error.ts";
import { meantBy } from "../meant-by.ts";
import { openTerminal, type Terminal } from "../terminal.ts";

interface Agent {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly agent_type: string;
  readonly plan_id: string;
  readonly version: string;
  readonly price_per_hour: number;
  readonly fail_reason: string | null;
  readonly operation: string | null;
}
interface Type {
  readonly pretty_name: string;
  readonly version: string;
  readonly plans: readonly {
    readonly id: string;
    readonly vcpu: number;
    readonly ram_gb: number;
    readonly price_per_hour: number;
  }[];
}
interface Backup {
  readonly snapshot_name: string;
  readonly size_in_gb: number;
  readonly state: string;
  readonly created_at_unix: number;
  readonly fail_reason: string | null;
}

const catalogueUpdate =
  "give one the version that the catalogue has now; it is restarted if it runs, and its volume stays";
const noCatalogue =
  "The operator offers no agents here: STOKER_AGENT_CATALOG of the control plane names the file of types and plans " +
  "(docs/operations.md, Agent instances).";
const lookEveryMs = 1_000;
const of = (id: string) => `/v1/agent/${encodeURIComponent(id)}`;

export function addAgent(program: Command): void {
  const agent = program.command("agent").description("agent instances: long-lived containers with a volume");
  agent
    .command("catalog")
    .description("types and plans that can be created")
    .action(async (_flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const types = await terminal.api.call<Record<string, Type>>("GET", "/v1/agent/catalog");
      const rows = Object.entries(types).flatMap(([id, type]) => type.plans.map((plan) => ({ type: id, ...plan })));
      terminal.rows(rows, ["TYPE", "PLAN", "VCPU", "RAM GB", "USD/HOUR"], (one) =>
        [one.type, one.id, one.vcpu, one.ram_gb, one.price_per_hour].map(String),
      );
      if (rows.length === 0) terminal.progress(noCatalogue);
    });
  agent
    .command("create <name>")
    .description("create one")
    .requiredOption("--type <id>", "as `stoker agent catalog` lists it")
    .option("--plan <id>", "its size", "standard")
    .action(async (name: string, flags: { type: string; plan: string }, command: Command) => {
      const terminal = openTerminal(command);
      const body = { name, agent_type_id: flags.type, plan_id: flags.plan };
      const made = await terminal.api.call<{ instance_id: string }>("POST", "/v1/agent", body);
      terminal.show(made, ({ instance_id: id }) => id);
    });
  agent
    .command("list")
    .description("agent instances")
    .option("--state <which>", "active, inactive or all", "active")
    .action(async (flags: { state: string }, command: Command) => {
      const terminal = openTerminal(command);
      const found = await terminal.api.call<Agent[]>("GET", `/v1/agent?state=${encodeURIComponent(flags.state)}`);
      terminal.rows(found, ["ID", "NAME", "STATE", "TYPE", "PLAN"], (one) => [
        one.id,
        one.name,
        one.operation ?? one.state,
        one.agent_type,
        one.plan_id,
      ]);
    });
  agent
    .command("info <id>")
    .description("one of them")
    .action(async (id: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      terminal.show(await terminal.api.call<Agent>("GET", of(id)), described);
    });
  agent
    .command("rename <id> <name>")
    .description("give it another name")
    .action(async (id: string, name: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      terminal.show(await terminal.api.call("PATCH", of(id), { name }), () => `${id} is ${name} now`);
    });
  agent
    .command("open <agent>")
    .description("print the address that opens its dashboard, once and within a minute; by name or id")
    .action(async (given: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const all = await terminal.api.call<Agent[]>("GET", "/v1/agent");
      const id = meantBy(
        given,
        all.map((one) => ({ key: one.id, names: [one.name] })),
      );
      const made = await terminal.api.call<{ dashboard_url: string }>("POST", `${of(id)}/launch_token`);
      terminal.show(made, ({ dashboard_url: url }) => url);
    });
  for (const [verb, method, suffix, said, told] of [
    ["stop", "POST", "/stop", "stopping; its volume stays", "stop one; its volume stays, and start brings it back"],
    ["start", "POST", "/start", "starting", "start one that was stopped, with its volume"],
    ["update", "POST", "/update", "restarting with the catalogue's version", catalogueUpdate],
    ["delete", "DELETE", "", "deleted with its volume and backups", "delete one, its volume and its backups for good"],
  ] as const)
    agent
      .command(`${verb} <id>`)
      .description(told)
      .action(async (id: string, _flags: object, command: Command) => {
        const terminal = openTerminal(command);
        terminal.show(await terminal.api.call(method, `${of(id)}${suffix}`), () => `${id} ${said}`);
      });
}

export function addBackup(program: Command): void {
  const backup = program.command("backup").description("backups of an agent instance's volume");
  backup
    .command("create <agent>")
    .description("make one and wait for it")
    .option("--no-wait", "return once it has begun")
    .action(async (id: string, flags: { wait: boolean }, command: Command) => {
      const terminal = openTerminal(command);
      const made = await terminal.api.call<{ snapshot_name: string }>("POST", `${of(id)}/backup`);
      if (flags.wait) await ended(terminal, id);
      terminal.show(made, ({ snapshot_name: name }) => name);
    });
  backup
    .command("list <agent>")
    .description("its backups, the newest first")
    .action(async (id: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const found = await terminal.api.call<Backup[]>("GET", `${of(id)}/backups`);
      terminal.rows(found, ["BACKUP", "MADE", "GB", "STATE"], (one) => [
        one.snapshot_name,
        new Date(one.created_at_unix * 1000).toISOString(),
        one.size_in_gb.toFixed(3),
        one.fail_reason ?? one.state,
      ]);
    });
  backup
    .command("delete <agent> <backup>")
    .description("delete a backup")
    .action(async (id: string, name: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const gone = await terminal.api.call("DELETE", `${of(id)}/backups/${encodeURIComponent(name)}`);
      terminal.show(gone, () => `${name} is deleted`);
    });
  for (const [verb, path, said] of [
    ["restore", "restore", "restored"],
    ["verify", "verify", "can be restored"],
  ] as const)
    backup
      .command(`${verb} <agent> <backup>`)
      .description(
        verb === "restore" ? "replace the volume by a backup and wait for it" : "check that it could be restored",
      )
      .option("--no-wait", "return once it has begun")
      .action(async (id: string, name: string, flags: { wait: boolean }, command: Command) => {
        const terminal = openTerminal(command);
        const begun = await terminal.api.call("POST", `${of(id)}/backups/${encodeURIComponent(name)}/${path}`);
        if (flags.wait) await ended(terminal, id);
        terminal.show(begun, () =>
          flags.wait ? `${name} ${said}` : `begun; \`stoker agent info ${id}\` shows its end`,
        );
      });
}

/** Throws when the operation failed. */
async function ended(terminal: Terminal, id: string): Promise<void> {
  for (;;) {
    const { operation, fail_reason: why } = await terminal.api.call<Agent>("GET", of(id));
    if (operation === null && why) throw new CliError(why, exitCode.failed);
    if (operation === null) return;
    await sleep(lookEveryMs);
  }
}

function described(one: Agent): string {
  const lines = [
    `${one.id}  ${one.name}`,
    `state    ${one.state}${one.operation ? ` (${one.operation} runs)` : ""}`,
    `type     ${one.agent_type} ${one.version}, plan ${one.plan_id}, USD ${one.price_per_hour} per hour`,
    ...(one.fail_reason ? [`reason   ${one.fail_reason}`] : []),
  ];
  return lines.join("\n");
}
