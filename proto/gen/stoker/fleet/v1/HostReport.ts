// Original file: proto/fleet/v1/fleet.proto

import type { Inventory as _stoker_fleet_v1_Inventory, Inventory__Output as _stoker_fleet_v1_Inventory__Output } from '../../../stoker/fleet/v1/Inventory.ts';
import type { InstanceReport as _stoker_fleet_v1_InstanceReport, InstanceReport__Output as _stoker_fleet_v1_InstanceReport__Output } from '../../../stoker/fleet/v1/InstanceReport.ts';
import type { KeptWeights as _stoker_fleet_v1_KeptWeights, KeptWeights__Output as _stoker_fleet_v1_KeptWeights__Output } from '../../../stoker/fleet/v1/KeptWeights.ts';
import type { Long } from '@grpc/proto-loader';

export interface HostReport {
  'nodeEpoch'?: (number | string | Long);
  'generation'?: (number | string | Long);
  'inventory'?: (_stoker_fleet_v1_Inventory | null);
  'instances'?: (_stoker_fleet_v1_InstanceReport)[];
  'spoolRecords'?: (number | string | Long);
  'openLeaseIds'?: (string)[];
  'removed'?: (string)[];
  'weights'?: (_stoker_fleet_v1_KeptWeights)[];
}

export interface HostReport__Output {
  'nodeEpoch': (string);
  'generation': (string);
  'inventory': (_stoker_fleet_v1_Inventory__Output | null);
  'instances': (_stoker_fleet_v1_InstanceReport__Output)[];
  'spoolRecords': (string);
  'openLeaseIds': (string)[];
  'removed': (string)[];
  'weights': (_stoker_fleet_v1_KeptWeights__Output)[];
}
