// Original file: proto/fleet/v1/fleet.proto

import type { Inventory as _stoker_fleet_v1_Inventory, Inventory__Output as _stoker_fleet_v1_Inventory__Output } from '../../../stoker/fleet/v1/Inventory.ts';
import type { Long } from '@grpc/proto-loader';

export interface Hello {
  'hostId'?: (string);
  'hostname'?: (string);
  'agentVersion'?: (string);
  'highestEpoch'?: (number | string | Long);
  'generation'?: (number | string | Long);
  'advertise'?: (string);
  'inventory'?: (_stoker_fleet_v1_Inventory | null);
  'bootId'?: (string);
  'runId'?: (string);
  'restoreMark'?: (string);
}

export interface Hello__Output {
  'hostId': (string);
  'hostname': (string);
  'agentVersion': (string);
  'highestEpoch': (string);
  'generation': (string);
  'advertise': (string);
  'inventory': (_stoker_fleet_v1_Inventory__Output | null);
  'bootId': (string);
  'runId': (string);
  'restoreMark': (string);
}
