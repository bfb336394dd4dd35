// Original file: proto/fleet/v1/fleet.proto

import type { UsageRecord as _stoker_fleet_v1_UsageRecord, UsageRecord__Output as _stoker_fleet_v1_UsageRecord__Output } from '../../../stoker/fleet/v1/UsageRecord.ts';

export interface UsageBatch {
  'records'?: (_stoker_fleet_v1_UsageRecord)[];
}

export interface UsageBatch__Output {
  'records': (_stoker_fleet_v1_UsageRecord__Output)[];
}
