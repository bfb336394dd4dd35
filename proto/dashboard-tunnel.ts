// Protocol between a gateway and the dashboard of an agent instance: an upgrade on the agent's data path, with a ticket for this
// purpose alone, turns the connection into bytes to and from the one port that the instance's specification names.

/** Protocol name of the upgrade. */
export const dashboardProtocol = "stoker-dashboard";

/** In place of a model's name: the bearer may reach the dashboard of the ticket's instance, and nothing else with it. */
export const dashboardPurpose = "dashboard";

export const dashboardPath = (instance: string): string => `/i/${instance}/dashboard`;
