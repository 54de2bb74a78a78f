package disclosure

// Sheet holds the benchmark notes, in the order of the classic result pages. All are free text for people to fill
// in; the program fills only what it knows and the user did not.
type Sheet struct {
	Hardware     HardwareNotes `json:"hardware"`
	Software     SoftwareNotes `json:"software"`
	HTTP         HTTPNotes     `json:"http_software"`
	Availability Availability  `json:"availability"`
	Sponsor      Sponsor       `json:"test_sponsor"`
	Network      NetworkNotes  `json:"network"`
	Clients      ClientNotes   `json:"clients"`
	Notes        Notes         `json:"notes"`
}

// Availability gives the dates from which the parts can be had ("Nov-2026").
type Availability struct {
	Hardware     string `json:"all_hardware,omitempty"`
	HTTP         string `json:"http_software,omitempty"`
	System       string `json:"operating_system,omitempty"`
	Supplemental string `json:"supplemental_system,omitempty"`
}

// HardwareNotes describes the machine under test.
type HardwareNotes struct {
	Vendor          string `json:"vendor,omitempty"`
	Model           string `json:"model,omitempty"`
	Processor       string `json:"processor,omitempty"`
	Processors      string `json:"processors,omitempty"` // "2 cores, 1 chip, 2 cores/chip"
	PrimaryCache    string `json:"primary_cache,omitempty"`
	SecondaryCache  string `json:"secondary_cache,omitempty"`
	OtherCache      string `json:"other_cache,omitempty"`
	Memory          string `json:"memory,omitempty"`
	Disks           string `json:"disk_subsystem,omitempty"`
	DiskControllers string `json:"disk_controllers,omitempty"`
	Other           string `json:"other_hardware,omitempty"`
}

// SoftwareNotes describes the system under test.
type SoftwareNotes struct {
	System     string `json:"operating_system,omitempty"`
	FileSystem string `json:"file_system,omitempty"`
	Other      string `json:"other_software,omitempty"`
}

// HTTPNotes describes the server under test.
type HTTPNotes struct {
	Vendor  string `json:"vendor,omitempty"`
	Product string `json:"product,omitempty"`
	API     string `json:"api,omitempty"`
	Cache   string `json:"server_cache,omitempty"`
	LogMode string `json:"log_mode,omitempty"`
}

// Sponsor says who tested.
type Sponsor struct {
	TestDate string `json:"test_date,omitempty"`
	TestedBy string `json:"tested_by,omitempty"`
	Licence  string `json:"licence,omitempty"`
}

// NetworkNotes describes the network between target and drivers.
type NetworkNotes struct {
	ControllerCount string `json:"number_of_controllers,omitempty"`
	Controllers     string `json:"network_controllers,omitempty"`
	NetCount        string `json:"number_of_nets,omitempty"`
	NetType         string `json:"type_of_nets,omitempty"`
	Speed           string `json:"network_speed,omitempty"`
	MSL             string `json:"msl,omitempty"`
	TimeWait        string `json:"time_wait,omitempty"`
	MTU             string `json:"mtu,omitempty"`
}

// ClientNotes describes the driver machines.
type ClientNotes struct {
	Count      string `json:"number_of_clients,omitempty"`
	Model      string `json:"model,omitempty"`
	Processor  string `json:"processor,omitempty"`
	Processors string `json:"number_of_processors,omitempty"`
	Memory     string `json:"memory,omitempty"`
	Controller string `json:"network_controller,omitempty"`
	System     string `json:"operating_system,omitempty"`
	Compiler   string `json:"compiler,omitempty"`
}

// Notes are free lines, by group.
type Notes struct {
	Target   []string `json:"target,omitempty"`
	System   []string `json:"operating_system,omitempty"`
	HTTP     []string `json:"http_software,omitempty"`
	API      []string `json:"http_api,omitempty"`
	Hardware []string `json:"hardware,omitempty"`
	Network  []string `json:"network,omitempty"`
	Client   []string `json:"client,omitempty"`
	Other    []string `json:"other,omitempty"`
}
