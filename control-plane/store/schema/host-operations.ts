import type { DefaultTime, Time } from "./columns.ts";

export interface HostOperationsTables {
  host_operation: {
    host_id: string;
    /** cordon: nothing new is placed there. drain: what is there goes elsewhere as well. */
    kind: "cordon" | "drain";
    /** Why, as the operator said. */
    note: string;
    /** On it when a drain began. */
    instances: number;
    began_at: DefaultTime;
    /** Of a drain: what could not be replaced by then goes all the same. */
    deadline_at: Time | null;
  };
}
