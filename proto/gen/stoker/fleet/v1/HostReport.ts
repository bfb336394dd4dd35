// Original file: proto/fleet/v1/fleet.proto

import type { Inventory as _stoker_fleet_v1_Inventory, Inventory__Output as _stoker_fleet_v1_Inventory__Output } from '../../../stoker/fleet/v1/Inventory.ts';
import type { InstanceReport as _stoker_fleet_v1_InstanceReport, InstanceReport__Output as _stoker_fleet_v1_InstanceReport__Output } from '../../../stoker/fleet/v1/InstanceReport.ts';
import type { HostLoad as _stoker_fleet_v1_HostLoad, HostLoad__Output as _stoker_fleet_v1_HostLoad__Output } from '../../../stoker/fleet/v1/HostLoad.ts';
import type { GpuLoad as _stoker_fleet_v1_GpuLoad, GpuLoad__Output as _stoker_fleet_v1_GpuLoad__Output } from '../../../stoker/fleet/v1/GpuLoad.ts';
import type { KeptWeights as _stoker_fleet_v1_KeptWeights, KeptWeights__Output as _stoker_fleet_v1_KeptWeights__Output } from '../../../stoker/fleet/v1/KeptWeights.ts';
import type { ResendReport as _stoker_fleet_v1_ResendReport, ResendReport__Output as _stoker_fleet_v1_ResendReport__Output } from '../../../stoker/fleet/v1/ResendReport.ts';
import type { Long } from '@grpc/proto-loader';

export interface HostReport {
  'nodeEpoch'?: (number | string | Long);
  'generation'?: (number | string | Long);
  'inventory'?: (_stoker_fleet_v1_Inventory | null);
  'instances'?: (_stoker_fleet_v1_InstanceReport)[];
  'spoolRecords'?: (number | string | Long);
  'openLeaseIds'?: (string)[];
  'removed'?: (string)[];
  'load'?: (_stoker_fleet_v1_HostLoad | null);
  'gpus'?: (_stoker_fleet_v1_GpuLoad)[];
  'gpuSampleAgeMs'?: (number);
  'spoolBytes'?: (number | string | Long);
  'spoolOldestAgeSeconds'?: (number | string);
  'clockSkewSeconds'?: (number | string);
  'weights'?: (_stoker_fleet_v1_KeptWeights)[];
  'resend'?: (_stoker_fleet_v1_ResendReport | null);
}

export interface HostReport__Output {
  'nodeEpoch': (string);
  'generation': (string);
  'inventory': (_stoker_fleet_v1_Inventory__Output | null);
  'instances': (_stoker_fleet_v1_InstanceReport__Output)[];
  'spoolRecords': (string);
  'openLeaseIds': (string)[];
  'removed': (string)[];
  'load': (_stoker_fleet_v1_HostLoad__Output | null);
  'gpus': (_stoker_fleet_v1_GpuLoad__Output)[];
  'gpuSampleAgeMs': (number);
  'spoolBytes': (string);
  'spoolOldestAgeSeconds': (number);
  'clockSkewSeconds': (number);
  'weights': (_stoker_fleet_v1_KeptWeights__Output)[];
  'resend': (_stoker_fleet_v1_ResendReport__Output | null);
}
