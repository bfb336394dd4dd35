// All accounts' deployments, containers and agent instances, and events: for operators on call.
import type { Static } from "typebox";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import type { DeploymentKind } from "../../deployments/deployment.ts";
import type { FleetEvent, NamedEvent, Overseen, OverseenFilter } from "../../oversight/store.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { readStatuses } from "../deployments/deploy-routes.ts";
import { DeployId, LogEntries } from "../deployments/deployment-schemas.ts";
import { logRange, readLogs } from "../deployments/logs-routes.ts";
import { isoTime, renderDeployment } from "../deployments/render-deployment.ts";
import type { OperatorFeatures } from "./features.ts";
import { NodeId } from "./node-enrolment-routes.ts";
import {
  DeploymentSeen,
  DeploymentsQuery,
  DeploymentsSeen,
  EventsPage,
  EventsQuery,
  FleetEventsPage,
  FleetEventsQuery,
  Intervention,
  InterventionQuery,
  RentalsQuery,
} from "./oversight-schemas.ts";

const pageSize = 50;
const one = "/v1/admin/deployments/:deploy_id";

export function addOversightRoutes(endpoints: Endpoints, features: OperatorFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });
  const { oversight } = features;

  admin.get("/v1/admin/deployments", {
    summary: "List deployments of all accounts, of every kind, newest first",
    query: DeploymentsQuery,
    answer: DeploymentsSeen,
    refusals: [400],
    handler: ({ query }) => listed(features, query, query.kind),
  });
  const rentals = [
    { path: "/v1/admin/containers", kind: "container", what: "containers" },
    { path: "/v1/admin/agent-instances", kind: "agent_instance", what: "agent instances" },
  ] as const;
  for (const { path, kind, what } of rentals)
    admin.get(path, {
      summary: `List ${what} of all accounts, newest first`,
      query: RentalsQuery,
      answer: DeploymentsSeen,
      refusals: [400],
      handler: ({ query }) => listed(features, query, kind),
    });

  admin.get(one, {
    summary: "Get a deployment, container or agent instance of any account",
    answer: DeploymentSeen,
    refusals: [404],
    handler: async ({ params }) => rendered(await oversight.get(params.deploy_id as DeploymentId)),
  });

  admin.get(`${one}/logs`, {
    summary: "Get log lines of a deployment of any account",
    query: logRange,
    answer: LogEntries,
    refusals: [400, 404],
    handler: ({ caller, params, query, reply }) =>
      readLogs(query, reply, (range, signal) =>
        oversight.logs(params.deploy_id as DeploymentId, actOf(caller, reply), range, signal),
      ),
  });

  addInterventionRoutes(endpoints, features);
  addEventRoutes(endpoints, features);
}

function addInterventionRoutes(endpoints: Endpoints, { oversight }: OperatorFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });
  const verbs = [
    { path: "/stop", summary: "Stop a deployment or agent instance of any account", verb: oversight.stop },
    {
      path: "/restart",
      summary: "Start a stopped or failed deployment of any account; restart the instances of a running one, at once",
      verb: oversight.restart,
      more: [402, 423],
    },
  ] as const;
  for (const { path, summary, verb, ...rest } of verbs)
    admin.post(`${one}${path}`, {
      summary,
      body: Intervention,
      answer: DeployId,
      refusals: [404, 409, ...("more" in rest ? rest.more : [])],
      async handler({ caller, params, body, reply }) {
        await verb(params.deploy_id as DeploymentId, actOf(caller, reply, body.note));
        return { deploy_id: params.deploy_id };
      },
    });

  admin.delete(one, {
    summary: "Delete a deployment, container or agent instance of any account; data of the latter two is lost",
    query: InterventionQuery,
    answer: DeployId,
    refusals: [404, 409],
    async handler({ caller, params, query, reply }) {
      await oversight.remove(params.deploy_id as DeploymentId, actOf(caller, reply, query.note));
      return { deploy_id: params.deploy_id };
    },
  });
}

function addEventRoutes(endpoints: Endpoints, { oversight, hosts }: OperatorFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  admin.get("/v1/admin/events", {
    summary: "List events of all deployments and hosts, newest first",
    query: FleetEventsQuery,
    answer: FleetEventsPage,
    refusals: [404],
    async handler({ query: { account, deploy_id, node, kind, cursor, limit } }) {
      const filter = {
        ...(account === undefined ? {} : { account: account as AccountId }),
        ...(deploy_id === undefined ? {} : { deployment: deploy_id as DeploymentId }),
        ...(node === undefined ? {} : { host: await hosts.idOf(node) }),
        ...(kind === undefined ? {} : { kind }),
      };
      return fleetEvents(await oversight.events(filter, cursor, limit ?? pageSize));
    },
  });

  admin.get(`${one}/events`, {
    summary: "List events of a deployment of any account with the hosts, newest first",
    query: EventsQuery,
    answer: FleetEventsPage,
    refusals: [404],
    async handler({ params, query }) {
      const { deployment } = await oversight.get(params.deploy_id as DeploymentId);
      const filter = { deployment: deployment.id };
      return fleetEvents(await oversight.events(filter, query.cursor, query.limit ?? pageSize));
    },
  });

  admin.get("/v1/admin/nodes/:id/events", {
    summary: "List events of a host, its GPUs and its instances, newest first",
    params: NodeId,
    query: EventsQuery,
    answer: FleetEventsPage,
    refusals: [404],
    async handler({ params, query }) {
      const filter = { host: await hosts.idOf(params.id) };
      return fleetEvents(await oversight.events(filter, query.cursor, query.limit ?? pageSize));
    },
  });

  endpoints.with({ tag: "deployments", access: "key" }).get("/deploy/:deploy_id/events", {
    isOpenToOperators: true,
    summary: "List events of a deployment, newest first; kept for 30 days",
    query: EventsQuery,
    answer: EventsPage,
    refusals: [404],
    async handler({ caller, params, query }) {
      const id = params.deploy_id as DeploymentId;
      const page = await oversight.eventsOf(caller.account, id, query.cursor, query.limit ?? pageSize);
      return { events: page.events.map(renderEvent), next_cursor: page.nextCursor };
    },
  });
}

async function listed(
  { oversight, hosts }: OperatorFeatures,
  { account, status, name, node, gpu, cursor, limit }: Static<typeof RentalsQuery>,
  kind: DeploymentKind | undefined,
) {
  const statuses = readStatuses(status);
  const filter: OverseenFilter = {
    ...(kind && { kind }),
    ...(statuses && { statuses }),
    ...(account === undefined ? {} : { account: account as AccountId }),
    ...(name === undefined ? {} : { name }),
    ...(node === undefined ? {} : { host: await hosts.idOf(node) }),
    ...(gpu === undefined ? {} : { gpu }),
  };
  const { page, nextCursor } = await oversight.list(filter, cursor, limit ?? pageSize);
  return { deployments: page.map(rendered), next_cursor: nextCursor };
}

function rendered({ deployment, owner, instances }: Overseen): DeploymentSeen {
  return {
    ...renderDeployment(deployment),
    kind: deployment.kind,
    engine: deployment.engine,
    account: {
      uid: owner.account,
      email: owner.email,
      display_name: owner.displayName,
      suspend_reason: owner.suspendReason,
    },
    hosts: instances.map((one) => ({
      instance_id: one.id,
      node_id: one.host,
      node_name: one.hostname,
      phase: one.phase,
      restarts: one.restarts,
      trouble: one.trouble,
      gpus: [...one.gpuUuids],
      since: isoTime(one.createdAtMs),
    })),
  };
}

function renderEvent({ id, atMs, kind, deployment, instance, state, reason }: FleetEvent) {
  return { id: String(id), at: isoTime(atMs), kind, deploy_id: deployment, instance_id: instance, state, reason };
}

function fleetEvents({ events, nextCursor }: { events: readonly NamedEvent[]; nextCursor: string | null }) {
  const shown = events.map((one) => ({
    ...renderEvent(one),
    deploy_name: one.deploymentName,
    account: one.account,
    account_email: one.accountEmail,
    node_id: one.host,
    node_name: one.hostname,
    gpu: one.gpu,
  }));
  return { events: shown, next_cursor: nextCursor };
}
