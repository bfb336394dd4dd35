// Events of deployments, hosts and the whole fleet.
import type { Responses } from "../../proto/gen/responses.ts";
import { adminGroup, type Command, deployGroup, nodeGroup } from "../command.ts";
import { between, hostName } from "../option-values.ts";
import { type Terminal, utcTime } from "../terminal.ts";
import { uidOf } from "./admin-account.ts";

type FleetEvent = Responses["GET /v1/admin/events"]["events"][number];
type OwnEvent = Responses["GET /deploy/{deploy_id}/events"]["events"][number];

interface Flags {
  readonly limit: number;
}

export function addEvents(program: Command): void {
  const limit = ["--limit <n>", "maximum number of events", between(1, 200), 50] as const;

  deployGroup(program)
    .command("events <id>")
    .example("stoker deploy events DpM4BkrjEspUwmTa")
    .description("list events of a deployment of the last 30 days, newest first")
    .option(...limit)
    .run((terminal, id: string, { limit }: Flags) =>
      show<OwnEvent>(terminal, `/deploy/${encodeURIComponent(id)}/events?limit=${limit}`, {}),
    );

  nodeGroup(program)
    .command("events")
    .example("stoker node events gpu-1 --limit 200")
    .description("list events of a host, its GPUs and its instances of the last 30 days, newest first")
    .argument("<node>", "id or name", hostName)
    .option(...limit)
    .run((terminal, id: string, { limit }: Flags) =>
      show<FleetEvent>(terminal, `/v1/admin/nodes/${encodeURIComponent(id)}/events?limit=${limit}`, {
        DEPLOYMENT: deploymentOf,
      }),
    );

  adminGroup(program)
    .command("events")
    .example("stoker admin events --kind instance.failed")
    .description("list events of all deployments and hosts of the last 30 days, newest first")
    .option("--account <account>", "only of this account (uid, e-mail address or display name)")
    .option("--deployment <id>", "only of this deployment")
    .option("--node <node>", "only of this host")
    .option("--kind <word>", "kind or its first part, such as instance.failed or host")
    .option(...limit)
    .run(async (terminal, { account, deployment, limit, ...rest }: Record<string, string> & Flags) => {
      const filter = {
        ...rest,
        ...(account === undefined ? {} : { account: await uidOf(terminal.api, account) }),
        ...(deployment === undefined ? {} : { deploy_id: deployment }),
      };
      const query = new URLSearchParams({ ...filter, limit: String(limit) });
      await show<FleetEvent>(terminal, `/v1/admin/events?${query}`, {
        DEPLOYMENT: deploymentOf,
        NODE: (event) => event.node_name ?? event.node_id ?? "-",
      });
    });
}

const deploymentOf = (event: FleetEvent): string => event.deploy_name || event.deploy_id || "-";

async function show<Event extends OwnEvent>(
  terminal: Terminal,
  path: string,
  more: Readonly<Record<string, (event: Event) => string>>,
): Promise<void> {
  const { events } = await terminal.api.call<{ events: Event[] }>("GET", path);
  terminal.rows(events, {
    AT: (event) => utcTime(event.at),
    EVENT: (event) => event.kind,
    STATE: (event) => (event.kind.endsWith(`.${event.state}`) ? "" : event.state),
    ...more,
    REASON: (event) => event.reason,
  });
}
