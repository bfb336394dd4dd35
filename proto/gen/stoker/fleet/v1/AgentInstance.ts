// Original file: proto/fleet/v1/fleet.proto


export interface AgentInstance {
  'port'?: (number);
  'volumePath'?: (string);
  'dashboardPort'?: (number);
}

export interface AgentInstance__Output {
  'port': (number);
  'volumePath': (string);
  'dashboardPort': (number);
}
