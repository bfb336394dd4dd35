// Deployments, containers and agent instances of all accounts.
import { Option } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import { adminGroup, type Command } from "../command.ts";
import { between } from "../option-values.ts";
import { utcTime } from "../terminal.ts";
import { uidOf } from "./admin-account.ts";
import { statusText } from "./deploy.ts";
import { type Entry, printLine } from "./log.ts";

type Seen = Responses["GET /v1/admin/deployments/{deploy_id}"];
type Listed = Responses["GET /v1/admin/deployments"];

const root = "/v1/admin/deployments";

export function addAdminDeployment(program: Command): void {
  const deployment = adminGroup(program)
    .command("deployment")
    .description("deployments, containers and agent instances of all accounts");
  const of = (id: string) => `${root}/${encodeURIComponent(id)}`;

  deployment
    .command("list")
    .description("list them, newest first")
    .example("stoker admin deployment list --account ada")
    .addOption(new Option("--kind <kind>", "only this kind").choices(["model", "container", "agent_instance"]))
    .option("--account <account>", "only of this account (uid, e-mail address or display name)")
    .option("--status <status,...>", "only with these statuses (default: all but deleted)")
    .option("--name <text>", "only with this text in the name")
    .option("--node <id>", "only with an instance on this host")
    .option("--gpu <type>", "only with this GPU type")
    .option("--limit <n>", "maximum number", between(1, 200), 50)
    .run(async (terminal, { limit, ...filter }: Record<string, string> & { limit: number }) => {
      if (filter["account"] !== undefined) filter["account"] = await uidOf(terminal.api, filter["account"]);
      const query = new URLSearchParams({ ...filter, limit: String(limit) });
      const { deployments } = await terminal.api.call<Listed>("GET", `${root}?${query}`);
      terminal.rows(
        deployments,
        {
          ID: "deploy_id",
          ACCOUNT: (one) => one.account.display_name,
          NAME: "model_name",
          STATUS: statusText,
          NODES: (one) => [...new Set(one.hosts.map(({ node_name }) => node_name))].join(" ") || "-",
        },
        {
          wide: {
            KIND: "kind",
            GPU: ({ config }) => `${config.num_gpus}x${config.gpu}`,
            ENGINE: "engine",
            CREATED: (one) => utcTime(one.created_at),
            REASON: (one) => one.fail_reason || one.pending_reasons[0]?.why || "",
          },
        },
      );
    });

  deployment
    .command("get <id>")
    .alias("info")
    .description("show one with its instances, hosts and the reason it fails or waits")
    .example("stoker admin deployment get DpM4BkrjEspUwmTa")
    .run(async (terminal, id: string) => terminal.show(await terminal.api.call<Seen>("GET", of(id)), text));

  deployment
    .command("logs <id>")
    .description("print its log")
    .example("stoker admin deployment logs DpM4BkrjEspUwmTa --limit 500")
    .option("--limit <n>", "maximum number of lines", between(1, 1000), 100)
    .stream(async (terminal, id: string, { limit }: { limit: number }) => {
      const { entries } = await terminal.api.call<{ entries: Entry[] }>("GET", `${of(id)}/logs?limit=${limit}`);
      for (const entry of entries) printLine(terminal, entry);
    });

  const verbs = [
    { verb: "stop", done: "stops", what: "stop one; its owner can start it again" },
    {
      verb: "restart",
      done: "restarts",
      what: "restart all its instances at once, or start one that stopped or failed",
    },
  ] as const;
  for (const { verb, done, what } of verbs)
    deployment
      .command(`${verb} <id>`)
      .example(`stoker admin deployment ${verb} DpM4BkrjEspUwmTa --note asked`)
      .description(what)
      .requiredOption("--note <text>", "reason, recorded in the audit log")
      .run(async (terminal, id: string, flags: { note: string }) => {
        const answer = await terminal.api.call<{ deploy_id: string }>("POST", `${of(id)}/${verb}`, flags);
        terminal.show(answer, ({ deploy_id }) => `Deployment ${deploy_id} ${done}.`);
      });

  deployment
    .command("delete <id>")
    .description("delete one; the data of a container or agent instance is lost")
    .example('stoker admin deployment delete DpM4BkrjEspUwmTa --note "asked"')
    .requiredOption("--note <text>", "reason, recorded in the audit log")
    .confirm(async ({ api }, id: string) => {
      const one = await api.call<Seen>("GET", of(id));
      const lost = one.kind === "model" ? "Requests to it fail from then on." : "Its data is lost.";
      return `Delete ${id} (${one.model_name}, ${statusText(one)}) of ${one.account.display_name}? ${lost}`;
    })
    .run(async (terminal, id: string, { note }: { note: string }) => {
      const path = `${of(id)}?${new URLSearchParams({ note })}`;
      const answer = await terminal.api.call<{ deploy_id: string }>("DELETE", path);
      terminal.show(answer, ({ deploy_id }) => `Deployment ${deploy_id} deleted.`);
    });
}

function text(one: Seen): string {
  const { account, instances, hosts, pending_reasons: reasons } = one;
  const suspended = account.suspend_reason === null ? "" : ` (suspended: ${account.suspend_reason})`;
  return [
    `${one.deploy_id} ${one.kind} ${one.model_name}`,
    `account   ${account.display_name} <${account.email}> ${account.uid}${suspended}`,
    `status    ${one.status}, ${instances.running} running, ${instances.pending} pending`,
    ...(one.fail_reason === "" ? [] : [`failure   ${one.fail_reason}`]),
    ...(one.update_error === "" ? [] : [`update    reverted: ${one.update_error}`]),
    `engine    ${one.engine}, ${one.config.num_gpus}x${one.config.gpu}`,
    ...hosts.map(
      (host) =>
        `instance  ${host.instance_id} on ${host.node_name}: ${host.phase}, ${host.restarts} restarts${host.trouble === "" ? "" : `, ${host.trouble}`}`,
    ),
    ...reasons.map(({ host, why }) => `waits     ${host}: ${why}`),
  ].join("\n");
}
