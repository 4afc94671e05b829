package redfishtest

import (
	"encoding/json"
	"net/http"
)

// Document is a Redfish resource as it is sent: JSON object members by name.
type Document = map[string]any

// Answer is an HTTP answer. The zero Answer means "no special answer" wherever
// a profile holds one.
type Answer struct {
	// Status is the HTTP status code.
	Status int
	// Body is sent as application/json; empty sends no body.
	Body string
	// Header holds further header fields.
	Header map[string]string
}

func (a Answer) given() bool { return a.Status != 0 }

// ErrorBody returns a Redfish error document (DSP0266 8.6) with one message.
// The code is shown as error.code, messageID and arguments in the extended
// information, which is where clients should look.
func ErrorBody(code, messageID, message string, arguments ...string) string {
	info := Document{"MessageId": messageID, "Message": message, "Severity": "Warning"}
	if len(arguments) > 0 {
		info["MessageArgs"] = arguments
	}
	return encode(Document{"error": Document{
		"code": code, "message": message, "@Message.ExtendedInfo": []Document{info},
	}})
}

// fail is the common case of an error answer: code and message ID are equal.
func fail(status int, messageID, message string, arguments ...string) Answer {
	return Answer{Status: status, Body: ErrorBody(messageID, messageID, message, arguments...)}
}

func found(doc Document) Answer {
	a := Answer{Status: http.StatusOK, Body: encode(doc)}
	if tag, ok := doc["@odata.etag"].(string); ok {
		a.Header = map[string]string{"ETag": tag}
	}
	return a
}

// encode marshals a document of our own making; every value in it is a string,
// number, bool, list or map, so that it cannot fail but for a profile that put
// a channel or function in it, which then shows as null.
func encode(doc any) string {
	b, err := json.Marshal(doc)
	if err != nil {
		return "null"
	}
	return string(b)
}

func link(path string) Document { return Document{"@odata.id": path} }
