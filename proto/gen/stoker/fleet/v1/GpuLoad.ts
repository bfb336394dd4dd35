// Original file: proto/fleet/v1/fleet.proto

import type { GpuProcess as _stoker_fleet_v1_GpuProcess, GpuProcess__Output as _stoker_fleet_v1_GpuProcess__Output } from '../../../stoker/fleet/v1/GpuProcess.ts';
import type { Long } from '@grpc/proto-loader';

export interface GpuLoad {
  'uuid'?: (string);
  'utilizationRatio'?: (number | string);
  'memoryUsedBytes'?: (number | string | Long);
  'memoryTotalBytes'?: (number | string | Long);
  'temperatureCelsius'?: (number | string);
  'powerWatts'?: (number | string);
  'powerLimitWatts'?: (number | string);
  'smClockHertz'?: (number | string);
  'processes'?: (_stoker_fleet_v1_GpuProcess)[];
  '_utilizationRatio'?: "utilizationRatio";
  '_memoryUsedBytes'?: "memoryUsedBytes";
  '_memoryTotalBytes'?: "memoryTotalBytes";
  '_temperatureCelsius'?: "temperatureCelsius";
  '_powerWatts'?: "powerWatts";
  '_powerLimitWatts'?: "powerLimitWatts";
  '_smClockHertz'?: "smClockHertz";
}

export interface GpuLoad__Output {
  'uuid': (string);
  'utilizationRatio'?: (number);
  'memoryUsedBytes'?: (string);
  'memoryTotalBytes'?: (string);
  'temperatureCelsius'?: (number);
  'powerWatts'?: (number);
  'powerLimitWatts'?: (number);
  'smClockHertz'?: (number);
  'processes': (_stoker_fleet_v1_GpuProcess__Output)[];
  '_utilizationRatio'?: "utilizationRatio";
  '_memoryUsedBytes'?: "memoryUsedBytes";
  '_memoryTotalBytes'?: "memoryTotalBytes";
  '_temperatureCelsius'?: "temperatureCelsius";
  '_powerWatts'?: "powerWatts";
  '_powerLimitWatts'?: "powerLimitWatts";
  '_smClockHertz'?: "smClockHertz";
}
