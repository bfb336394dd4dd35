// `stoker agent`: long-lived containers with a volume. `stoker backup`: copies of such a volume.

import { setTimeout as sleep } from "node:timers/promises";
import type { Responses } from "../../proto/gen/responses.ts";
import type { Api } from "../api.ts";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { meantBy } from "../meant-by.ts";
import { openShell } from "../shell.ts";
import { isoTime, type Terminal, utcTime } from "../terminal.ts";

type Agent = Responses["GET /v1/agent/{instance_id}"];
type Type = Responses["GET /v1/agent/catalog"][string];
type Backup = Responses["GET /v1/agent/{instance_id}/backups"][number];

const catalogueUpdate = "update to the current catalogue version; restarts a running instance and keeps its volume";
const noCatalogue =
  "No agent types available. Operators configure them with STOKER_AGENT_CATALOG (docs/operations/agent-instances.md).";
const pollIntervalMs = 1_000;
const of = (id: string) => `/v1/agent/${encodeURIComponent(id)}`;

export function addAgent(program: Command): void {
  const agent = program.command("agent").description("agent instances: long-lived containers with a volume");
  agent
    .command("catalog")
    .description("list types and plans")
    .example("stoker agent catalog")
    .run(async (terminal) => {
      const types = await terminal.api.call<Record<string, Type>>("GET", "/v1/agent/catalog");
      const rows = Object.entries(types).flatMap(([id, type]) => type.plans.map((plan) => ({ type: id, ...plan })));
      terminal.rows(rows, {
        TYPE: "type",
        PLAN: "id",
        VCPU: "vcpu",
        "RAM GB": "ram_gb",
        "USD/HOUR": "price_per_hour",
      });
      if (rows.length === 0) terminal.progress(noCatalogue);
    });
  agent
    .command("create <name>")
    .example("stoker agent create notes --type workspace")
    .description("create an agent instance")
    .requiredOption("--type <id>", "type; `stoker agent catalog` lists them")
    .option("--plan <id>", "size", "standard")
    .run(async (terminal, name: string, flags: { type: string; plan: string }) => {
      const body = { name, agent_type_id: flags.type, plan_id: flags.plan };
      const made = await terminal.api.call<{ instance_id: string }>("POST", "/v1/agent", body);
      terminal.show(made, ({ instance_id: id }) => id);
    });
  agent
    .command("list")
    .example("stoker agent list --state all")
    .description("list agent instances")
    .option("--state <which>", "active, inactive or all", "active")
    .run(async (terminal, flags: { state: string }) => {
      const found = await terminal.api.call<Agent[]>("GET", `/v1/agent?state=${encodeURIComponent(flags.state)}`);
      terminal.rows(
        found,
        {
          ID: "id",
          NAME: "name",
          STATE: (one) => one.operation ?? one.state,
          TYPE: "agent_type",
          PLAN: "plan_id",
        },
        {
          empty: "No agent instances. Types of agents: `stoker agent catalog`",
          wide: {
            VERSION: "version",
            "USD/HOUR": "price_per_hour",
            "LAST BACKUP": (one) => (one.last_backup_ts === null ? "never" : utcTime(one.last_backup_ts)),
            REASON: (one) => one.fail_reason ?? "",
          },
        },
      );
    });
  agent
    .command("get <id>")
    .alias("info")
    .description("show an agent instance")
    .example("stoker agent get agent-1")
    .run(async (terminal, id: string) => {
      terminal.show(await terminal.api.call<Agent>("GET", of(id)), described);
    });
  agent
    .command("update <id>")
    .description(catalogueUpdate)
    .example("stoker agent update agent-1")
    .run(async (terminal, id: string) => {
      const updated = await terminal.api.call("POST", `${of(id)}/update`);
      terminal.show(updated, () => `${id} is restarting with the catalogue version`);
    });
  agent
    .command("rename <id> <name>")
    .description("change the name of an agent instance; nothing restarts")
    .example("stoker agent rename agent-1 notes")
    .run(async (terminal, id: string, name: string) => {
      terminal.show(await terminal.api.call("PATCH", of(id), { name }), () => `${id} renamed to ${name}`);
    });
  agent
    .command("open <agent>")
    .description("print a dashboard URL, valid once and for one minute; by name or id")
    .example("stoker agent open notes")
    .run(async (terminal, given: string) => {
      const all = await terminal.api.call<Agent[]>("GET", "/v1/agent");
      const id = meantBy(
        given,
        all.map((one) => ({ key: one.id, names: [one.name] })),
      );
      const made = await terminal.api.call<{ dashboard_url: string }>("POST", `${of(id)}/launch_token`);
      terminal.show(made, ({ dashboard_url: url }) => url);
    });
  agent
    .command("shell <id>")
    .description("open a shell in an agent instance, where its host allows terminals; exits with the shell's code")
    .example("stoker agent shell agent-1")
    .stream(async (terminal, id: string) => {
      process.exitCode = await openShell(terminal, of(id));
    });
  for (const [verb, method, suffix, result, description] of [
    ["stop", "POST", "/stop", "is stopping; its volume is kept", "stop an agent instance and keep its volume"],
    ["start", "POST", "/start", "is starting", "start a stopped agent instance"],
    [
      "delete",
      "DELETE",
      "",
      "deleted with its volume and backups",
      "delete an agent instance, its volume and its backups",
    ],
  ] as const) {
    const command = agent.command(`${verb} <id>`).example(`stoker agent ${verb} agent-1`).description(description);
    if (verb === "delete")
      command.confirm(
        async ({ api }, id: string) => `Delete ${await labelOf(api, id)} with its volume and all its backups?`,
      );
    command.run(async (terminal, id: string) => {
      terminal.show(await terminal.api.call(method, `${of(id)}${suffix}`), () => `${id} ${result}`);
    });
  }
}

/** `a1 (notes)` */
async function labelOf(api: Api, id: string): Promise<string> {
  const { name } = await api.call<Agent>("GET", of(id));
  return `${id} (${name})`;
}

export function addBackup(program: Command): void {
  const backup = program.command("backup").description("backups of an agent instance's volume");
  backup
    .command("create <agent>")
    .example("stoker backup create agent-1")
    .description("create a backup and wait for it")
    .option("--no-wait", "return immediately")
    .run(async (terminal, id: string, flags: { wait: boolean }) => {
      const made = await terminal.api.call<{ snapshot_name: string }>("POST", `${of(id)}/backup`);
      if (flags.wait) await waitUntilDone(terminal, id);
      terminal.show(made, ({ snapshot_name: name }) => name);
    });
  backup
    .command("list <agent>")
    .example("stoker backup list agent-1")
    .description("list backups, newest first")
    .run(async (terminal, id: string) => {
      const found = await terminal.api.call<Backup[]>("GET", `${of(id)}/backups`);
      terminal.rows(found, {
        BACKUP: "snapshot_name",
        CREATED: (one) => isoTime(one.created_at_unix),
        GB: (one) => one.size_in_gb.toFixed(3),
        STATE: (one) => one.fail_reason ?? one.state,
      });
    });
  backup
    .command("delete <agent> <backup>")
    .example("stoker backup delete agent-1 backup-1")
    .description("delete a backup")
    .confirm((_, id: string, name: string) => `Delete backup ${name} of ${id}?`)
    .run(async (terminal, id: string, name: string) => {
      const deleted = await terminal.api.call("DELETE", `${of(id)}/backups/${encodeURIComponent(name)}`);
      terminal.show(deleted, () => `${name} deleted`);
    });
  for (const [verb, result, description] of [
    ["restore", "restored", "replace the volume by a backup and wait for it"],
    ["verify", "can be restored", "check that a backup can be restored"],
  ] as const) {
    const command = backup
      .command(`${verb} <agent> <backup>`)
      .example(`stoker backup ${verb} agent-1 backup-1`)
      .description(description);
    if (verb === "restore")
      command.confirm(
        async ({ api }, id: string, name: string) =>
          `Replace the volume of ${await labelOf(api, id)} by backup ${name}? What was written since is lost.`,
      );
    command
      .option("--no-wait", "return immediately")
      .run(async (terminal, id: string, name: string, flags: { wait: boolean }) => {
        const started = await terminal.api.call("POST", `${of(id)}/backups/${encodeURIComponent(name)}/${verb}`);
        if (flags.wait) await waitUntilDone(terminal, id);
        terminal.show(started, () =>
          flags.wait ? `${name} ${result}` : `Started. \`stoker agent get ${id}\` shows its progress.`,
        );
      });
  }
}

/** Waits for the current operation. Throws CliError if it fails. */
async function waitUntilDone(terminal: Terminal, id: string): Promise<void> {
  for (;;) {
    const { operation, fail_reason: reason } = await terminal.api.call<Agent>("GET", of(id));
    if (operation === null && reason) throw new CliError(reason, exitCode.failed);
    if (operation === null) return;
    await sleep(pollIntervalMs);
  }
}

function described(one: Agent): string {
  const lines = [
    `${one.id}  ${one.name}`,
    `state    ${one.state}${one.operation ? ` (${one.operation} in progress)` : ""}`,
    `type     ${one.agent_type} ${one.version}, plan ${one.plan_id}, USD ${one.price_per_hour} per hour`,
    ...(one.fail_reason ? [`reason   ${one.fail_reason}`] : []),
  ];
  return lines.join("\n");
}
