import { type Static, Type } from "typebox";
import { DeploymentRecord } from "../deployments/deployment-schemas.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import { Note, Page } from "./operator-schemas.ts";

const kinds = ["model", "container", "agent_instance"] as const;

const InstanceSeen = Type.Object({
  instance_id: Type.String(),
  node_id: Type.String(),
  node_name: Type.String(),
  phase: Type.String(),
  restarts: Type.Integer(),
  trouble: Type.String({ description: "Its failure, or the error of the attempt being retried; empty: none" }),
  gpus: Type.Array(Type.String(), { description: "UUIDs" }),
  since: Type.String({ description: "Placed at, ISO 8601" }),
});

export const DeploymentSeen = Type.Object({
  ...DeploymentRecord.properties,
  kind: Type.Unsafe<(typeof kinds)[number]>({ type: "string", enum: [...kinds] }),
  engine: Type.String(),
  account: Type.Object({
    uid: Type.String(),
    email: Type.String(),
    display_name: Type.String(),
    suspend_reason: nullable.string(),
  }),
  hosts: Type.Array(InstanceSeen, { description: "Its instances and the hosts that run them" }),
});
export type DeploymentSeen = Static<typeof DeploymentSeen>;

export const DeploymentsSeen = Type.Object({
  deployments: Type.Array(DeploymentSeen),
  next_cursor: nullable.string(),
});

const filters = {
  account: Type.Optional(Type.String({ maxLength: 64, description: "uid" })),
  status: Type.Optional(
    Type.String({ maxLength: 200, description: "Comma list of statuses; default: all but deleted" }),
  ),
  name: Type.Optional(Type.String({ maxLength: 200, description: "Part of the name" })),
  node: Type.Optional(Type.String({ maxLength: 64, description: "Id or name of a host of one of its instances" })),
  gpu: Type.Optional(Type.String({ maxLength: 64, description: "GPU type" })),
};

export const RentalsQuery = Type.Object({ ...filters, ...Page });
export const DeploymentsQuery = Type.Object({
  kind: Type.Optional(Type.Unsafe<(typeof kinds)[number]>({ type: "string", enum: [...kinds] })),
  ...RentalsQuery.properties,
});

/** A reason is required: customers are affected. */
export const Intervention = Type.Object({ note: Note }, { additionalProperties: false });
export const InterventionQuery = Type.Object({ note: Note });

const eventFields = {
  id: Type.String(),
  at: Type.String({ description: "ISO 8601" }),
  kind: Type.String({
    description:
      "noun.verb: deployment.{created, scaled, specified, reverted, STATUS}, instance.{placed, waiting, restarted, removed, PHASE}, host.{joined, silent, lost, returned, agent_started, usable, unusable, cloned, cordoned, draining, uncordoned}, gpu.{cordoned, uncordoned}",
  }),
  deploy_id: nullable.string(),
  instance_id: nullable.string(),
  state: Type.String({ description: "New status or phase, a count, or a version; may be empty" }),
  reason: Type.String({ description: "Why; may be empty" }),
};

export const EventsPage = Type.Object({ events: Type.Array(Type.Object(eventFields)), next_cursor: nullable.string() });

export const FleetEventsPage = Type.Object({
  events: Type.Array(
    Type.Object({
      ...eventFields,
      deploy_name: nullable.string({ description: "Its model, or the name of its container or agent instance" }),
      account: nullable.string({ description: "uid; null: the event is a host's" }),
      account_email: nullable.string({ description: "E-mail address, or the uid if the account was deleted" }),
      node_id: nullable.string({ description: "null: the event is a deployment's" }),
      node_name: nullable.string(),
      gpu: nullable.string({ description: "UUID" }),
    }),
  ),
  next_cursor: nullable.string(),
});

export const EventsQuery = Type.Object(Page);
export const FleetEventsQuery = Type.Object({
  account: filters.account,
  deploy_id: Type.Optional(Type.String({ maxLength: 64 })),
  node: Type.Optional(Type.String({ maxLength: 64, description: "Id or name of a host" })),
  kind: Type.Optional(Type.String({ maxLength: 64, description: "noun.verb, or only the noun" })),
  ...Page,
});
