// Original file: proto/fleet/v1/fleet.proto

import type { Gpu as _stoker_fleet_v1_Gpu, Gpu__Output as _stoker_fleet_v1_Gpu__Output } from '../../../stoker/fleet/v1/Gpu.ts';
import type { Long } from '@grpc/proto-loader';

export interface Inventory {
  'os'?: (string);
  'cpuModel'?: (string);
  'cpuCores'?: (number);
  'memoryBytes'?: (number | string | Long);
  'diskTotalBytes'?: (number | string | Long);
  'diskFreeBytes'?: (number | string | Long);
  'gpus'?: (_stoker_fleet_v1_Gpu)[];
  'drivers'?: (string)[];
  'dockerVersion'?: (string);
  'nvidiaDriverVersion'?: (string);
  'cudaVersion'?: (string);
  'rentalImages'?: (string)[];
  'rentalsUnavailable'?: (string);
}

export interface Inventory__Output {
  'os': (string);
  'cpuModel': (string);
  'cpuCores': (number);
  'memoryBytes': (string);
  'diskTotalBytes': (string);
  'diskFreeBytes': (string);
  'gpus': (_stoker_fleet_v1_Gpu__Output)[];
  'drivers': (string)[];
  'dockerVersion': (string);
  'nvidiaDriverVersion': (string);
  'cudaVersion': (string);
  'rentalImages': (string)[];
  'rentalsUnavailable': (string);
}
