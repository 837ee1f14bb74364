//! How a host gets to know a device: what Linux asks when one is plugged in, and what its `cdc_ncm`
//! driver asks after that. No time is kept here.

use super::{
    descriptors::{Function, function},
    ntb::Parameters,
};

const GET: u8 = 0x80;
const CLASS: u8 = 0x20;
const INTERFACE: u8 = 0x01;

const SET_ADDRESS: u8 = 5;
const GET_DESCRIPTOR: u8 = 6;
const SET_CONFIGURATION: u8 = 9;
const SET_INTERFACE: u8 = 11;
const SET_PACKET_FILTER: u8 = 0x43;
const GET_NTB_PARAMETERS: u8 = 0x80;
const SET_NTB_INPUT_SIZE: u8 = 0x86;

const DEVICE: u16 = 1;
const CONFIGURATION: u16 = 2;
const STRING: u16 = 3;
const BOS: u16 = 15;
const ENGLISH: u16 = 0x0409;
/// Since this version a device has a BOS descriptor.
const USB_2_1: u16 = 0x0201;
/// Everything that is for us, for all, or for many.
const FILTER: u16 = 0b1_1100;

/// A control transfer that the host wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The eight bytes that begin it.
    pub setup: [u8; 8],
    /// What the host sends with it.
    pub data: Vec<u8>,
}

impl Request {
    fn new(kind: u8, request: u8, value: u16, index: u16, len: u16) -> Request {
        let ([v0, v1], [i0, i1], [l0, l1]) = (value.to_le_bytes(), index.to_le_bytes(), len.to_le_bytes());
        Request { setup: [kind, request, v0, v1, i0, i1, l0, l1], data: Vec::new() }
    }

    fn descriptor(kind: u16, number: u8, index: u16, len: u16) -> Request {
        Request::new(GET, GET_DESCRIPTOR, kind << 8 | u16::from(number), index, len)
    }

    /// Whether the device sends data.
    #[must_use]
    pub fn is_in(&self) -> bool {
        self.setup[0] & GET != 0
    }

    /// How many bytes are sent at most.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(u16::from_le_bytes([self.setup[6], self.setup[7]]))
    }

    /// Whether none are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What comes next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// A control transfer.
    Ask(Request),
    /// The bus is reset.
    Reset,
    /// Nothing for so many milliseconds.
    Wait(u64),
    /// The network is up as far as the host can bring it.
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    FirstLook,
    ResetAgain,
    Address,
    AddressSettles,
    Device,
    Bos,
    ConfigurationHead,
    Configuration,
    Languages,
    Product,
    Manufacturer,
    Serial,
    Configure,
    DataOn,
    DataOff,
    Parameters,
    InputSize,
    Mac,
    DriverPauses,
    DataOnAgain,
    Filter,
}

const STEPS: [Step; 21] = [
    Step::FirstLook,
    Step::ResetAgain,
    Step::Address,
    Step::AddressSettles,
    Step::Device,
    Step::Bos,
    Step::ConfigurationHead,
    Step::Configuration,
    Step::Languages,
    Step::Product,
    Step::Manufacturer,
    Step::Serial,
    Step::Configure,
    // The driver toggles the data interface, so that it begins anew.
    Step::DataOn,
    Step::DataOff,
    Step::Parameters,
    Step::InputSize,
    Step::Mac,
    Step::DriverPauses,
    Step::DataOnAgain,
    Step::Filter,
];

/// How far the host is, and what it has learned.
#[derive(Clone, Debug, Default)]
pub struct Enumeration {
    at: usize,
    address: u8,
    /// The device descriptor.
    pub device: Vec<u8>,
    /// The configuration descriptor with all that belongs to it.
    pub configuration: Vec<u8>,
    /// Where the network function is.
    pub function: Function,
    /// How it wants its blocks.
    pub parameters: Option<Parameters>,
    /// The strings, in the order in which they were asked for.
    pub strings: Vec<String>,
    /// Requests that the device has refused.
    pub refused: Vec<u8>,
}

impl Enumeration {
    /// A device that will get this address.
    #[must_use]
    pub fn new(address: u8) -> Enumeration {
        Enumeration { address, ..Enumeration::default() }
    }

    /// The same device, of which nothing is known any more.
    #[must_use]
    pub fn anew(&self) -> Enumeration {
        Enumeration::new(self.address)
    }

    /// The network driver begins anew with a device that is configured.
    pub fn begin_driver(&mut self) {
        self.at = STEPS.iter().position(|step| *step == Step::DataOn).unwrap_or(0);
    }

    /// The address that the device listens to.
    #[must_use]
    pub fn address(&self) -> u8 {
        let is_given = STEPS[..self.at].contains(&Step::Address);
        if is_given { self.address } else { 0 }
    }

    /// What comes next. Steps that do not concern this device are left out.
    pub fn go_on(&mut self) -> Next {
        while let Some(step) = STEPS.get(self.at) {
            match self.wanted(*step) {
                Some(next) => {
                    if !matches!(next, Next::Ask(_)) {
                        self.at += 1;
                    }
                    return next;
                }
                None => self.at += 1,
            }
        }
        Next::Done
    }

    fn wanted(&self, step: Step) -> Option<Next> {
        let Function { control, data, data_setting, mac, .. } = self.function;
        let string = |number: u8| (number != 0).then(|| Request::descriptor(STRING, number, ENGLISH, 255));
        let text = |at: usize| string(self.device.get(at).copied().unwrap_or(0));
        let set_data = |setting: u8| Some(Request::new(INTERFACE, SET_INTERFACE, setting.into(), data.into(), 0));
        let class = |kind, request, value, len| {
            Some(Request::new(kind | CLASS | INTERFACE, request, value, control.into(), len))
        };
        let request = match step {
            Step::ResetAgain => return Some(Next::Reset),
            Step::AddressSettles => return Some(Next::Wait(2)),
            Step::DriverPauses => return Some(Next::Wait(10)),
            Step::FirstLook => Some(Request::descriptor(DEVICE, 0, 0, 64)),
            Step::Address => Some(Request::new(0, SET_ADDRESS, self.address.into(), 0, 0)),
            Step::Device => Some(Request::descriptor(DEVICE, 0, 0, 18)),
            Step::Bos => (self.version() >= USB_2_1).then(|| Request::descriptor(BOS, 0, 0, 5)),
            Step::ConfigurationHead => Some(Request::descriptor(CONFIGURATION, 0, 0, 9)),
            Step::Configuration => Some(Request::descriptor(CONFIGURATION, 0, 0, self.configuration_len())),
            Step::Languages => Some(Request::descriptor(STRING, 0, 0, 255)),
            Step::Manufacturer => text(14),
            Step::Product => text(15),
            Step::Serial => text(16),
            Step::Configure => {
                let number = self.configuration.get(5).copied().unwrap_or(1);
                Some(Request::new(0, SET_CONFIGURATION, number.into(), 0, 0))
            }
            Step::DataOn | Step::DataOnAgain => set_data(data_setting),
            Step::DataOff => set_data(0),
            Step::Parameters => class(GET, GET_NTB_PARAMETERS, 0, 28),
            Step::InputSize => class(0, SET_NTB_INPUT_SIZE, 0, 4).map(|request| {
                let most = self.parameters.map_or(0, |parameters| parameters.in_max as u32);
                Request { data: most.to_le_bytes().to_vec(), ..request }
            }),
            Step::Mac => string(mac),
            Step::Filter => class(0, SET_PACKET_FILTER, FILTER, 0),
        };
        request.map(Next::Ask)
    }

    /// The device answered the last request; none if it refused.
    ///
    /// # Errors
    /// What a host cannot work with.
    pub fn answered(&mut self, answer: Option<Vec<u8>>) -> Result<(), String> {
        let Some(step) = STEPS.get(self.at).copied() else { return Ok(()) };
        self.at += 1;
        let Some(answer) = answer else {
            // A driver goes on without a filter.
            self.refused.extend((step == Step::Filter).then_some(SET_PACKET_FILTER));
            return if step == Step::Filter { Ok(()) } else { Err(format!("it refused {step:?}")) };
        };
        match step {
            Step::FirstLook | Step::Device if answer.len() != 18 || answer[1] != DEVICE as u8 => {
                return Err(format!("its device descriptor is {answer:02x?}"));
            }
            Step::Device => self.device = answer,
            Step::ConfigurationHead | Step::Configuration => self.configuration = answer,
            Step::Manufacturer | Step::Product | Step::Serial | Step::Mac => {
                let units: Vec<u16> = answer[2.min(answer.len())..]
                    .chunks_exact(2)
                    .map(|unit| u16::from_le_bytes([unit[0], unit[1]]))
                    .collect();
                self.strings.push(String::from_utf16_lossy(&units));
            }
            Step::Parameters => {
                let parameters = Parameters::parse(&answer);
                self.parameters = Some(parameters.ok_or_else(|| format!("its parameters are {answer:02x?}"))?);
            }
            _ => {}
        }
        if step == Step::Configuration {
            self.function = function(&self.configuration)?;
        }
        Ok(())
    }

    fn version(&self) -> u16 {
        self.device.get(2..4).map_or(0, |version| u16::from_le_bytes([version[0], version[1]]))
    }

    fn configuration_len(&self) -> u16 {
        self.configuration.get(2..4).map_or(9, |len| u16::from_le_bytes([len[0], len[1]]))
    }
}
