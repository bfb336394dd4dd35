// Original file: proto/fleet/v1/fleet.proto


export interface UsageBatch {
  'records'?: (string);
}

export interface UsageBatch__Output {
  'records': (string);
}
